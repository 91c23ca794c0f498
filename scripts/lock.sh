#!/usr/bin/env bash
# Resolve pyproject.toml into requirements.lock (what the demo runs on) and requirements-dev.lock (the same and the tools),
# for every Python and platform at once, within [tool.uv] constraint-dependencies, with the hash of every file that may be installed.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools"
"$tools/bin/python" -m pip install --disable-pip-version-check --quiet uv

# The lock files are written anew; without --upgrade uv keeps what they hold as far as it still fits.
resolve() {
    "$tools/bin/uv" pip compile --quiet --upgrade --universal --generate-hashes --python-version 3.11 --custom-compile-command "make lock" \
        --no-emit-index-url --no-emit-find-links pyproject.toml --all-extras "$@"
}

resolve --output-file requirements.lock
resolve --group test --group check --group docs --constraints requirements.lock --output-file requirements-dev.lock
