#!/usr/bin/env bash
# Makes .venv with the locked packages and this one: `environment.sh runtime` for the demo, `environment.sh dev` for
# tests and checks. Says nothing and is done in a moment when .venv already has them.
#
# Plain pip, so that whatever is set up for it (pip.conf, PIP_*, a mirror) holds here too. PYTHON names the
# interpreter; without it the first one that is new enough is taken.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=${PATH//"$PWD/.venv/bin:"/} # the Makefile puts it first; an environment is not made from itself

level=${1:?usage: environment.sh runtime|dev}
venv=.venv
log=.venv.log
needed_megabytes=2500

fail() {
    echo "error: $*" >&2
    exit 1
}

lock_of() { if [ "$1" = dev ]; then echo requirements-dev.lock; else echo requirements.lock; fi; }

# An environment knows what it was made from, and where: a moved one does not work. Of this package only its
# description is installed (entry points); the code is used where it lies.
key_of() {
    if [ "$1" = package ]; then cksum <pyproject.toml; else { cat "$(lock_of "$1")" && pwd; } | cksum; fi
}

is_current() { [ "$(cat "$venv/made-from-$1" 2>/dev/null)" = "$(key_of "$1")" ]; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    local first=${PYTHON:-python3}
    fail "Python 3.11, 3.12 or 3.13 is needed, and $first is $("$first" --version 2>/dev/null || echo "not there")." \
        "Install it, or name it: make PYTHON=/path/to/python3.11 ..."
}

check_room() {
    local folder free
    for folder in . "${TMPDIR:-/tmp}"; do
        free=$(df -Pk "$folder" | awk 'NR == 2 { print int($4 / 1024) }')
        [ "$free" -ge "$needed_megabytes" ] ||
            fail "only $free MB free in $(cd "$folder" && pwd); the packages need $needed_megabytes MB there. Make room" \
                "(TMPDIR=/elsewhere moves the temporary part)."
    done
}

make_venv() {
    local python
    python=$(find_python)
    "$python" -c 'import venv, ensurepip' 2>/dev/null ||
        fail "$python lacks its venv and ensurepip modules; on Debian and Ubuntu: apt-get install python3-venv"
    rm -rf "$venv"
    "$python" -m venv "$venv" >"$log" 2>&1 || fail "could not make $venv: $(tail -n 1 "$log")"
}

# One line that keeps moving on a terminal, a line every 15 s elsewhere.
show_progress() {
    local pid=$1 total=$2 began=$SECONDS last_shown=0 seconds phase
    while kill -0 "$pid" 2>/dev/null; do
        seconds=$((SECONDS - began))
        phase="$(grep -c -E '^(Collecting|Requirement already)' "$log" || true) of $total fetched"
        grep -q '^Building wheels' "$log" && phase="all fetched, building Spark's package"
        grep -q '^Installing collected' "$log" && phase="installing"
        if [ -t 1 ]; then
            printf '\r  %3d s: %-60s' "$seconds" "$phase"
        elif [ $((seconds - last_shown)) -ge 15 ]; then
            last_shown=$seconds
            echo "  $seconds s: $phase"
        fi
        sleep 0.5
    done
    if [ -t 1 ]; then printf '\r%-70s\r' ''; fi
}

# The lock is complete, so pip has nothing to work out: --no-deps.
pip_install() { "$venv/bin/python" -m pip install --disable-pip-version-check --no-input --no-deps "$@"; }

install_all() {
    pip_install -r "$1" && pip_install -e .
}

# In a process group of its own (set -m), so that Ctrl-C here ends pip and what pip started.
run_with_progress() {
    local total=$1 pid
    shift
    set -m
    "$@" >"$log" 2>&1 &
    pid=$!
    set +m
    trap 'kill -- -'"$pid"' 2>/dev/null; echo; exit 130' INT TERM
    show_progress "$pid" "$total"
    trap - INT TERM
    wait "$pid" ||
        fail "pip could not install the packages: $(grep -E '^ *ERROR' "$log" | head -n 1). All it said is in $log"
}

is_current "$level" && is_current package && "$venv/bin/python" -c '' 2>/dev/null && exit 0

# Without its mark an environment was never finished, or was made from another lock: begin anew. Only the tools for
# tests and checks, or this package's description, are ever put on top of one that is there.
if ! is_current runtime || ! "$venv/bin/python" -c '' 2>/dev/null; then
    check_room
    make_venv
fi
rm -f "$venv/made-from-dev" "$venv/made-from-package"
echo "Setting up Python packages in $venv (about 90 seconds, once) ..."
began=$SECONDS
lock=$(lock_of "$level")
run_with_progress "$(grep -c '^[a-z0-9]' "$lock")" install_all "$lock"
for made in runtime "$level" package; do key_of "$made" >"$venv/made-from-$made"; done
rm -f "$log"
echo "  done in $((SECONDS - began)) s"
