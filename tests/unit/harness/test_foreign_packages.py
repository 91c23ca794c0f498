"""Installation of the foreign clients."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.harness.foreign_packages import CLIENTS, ClientsMissingError, node_modules

if TYPE_CHECKING:
    from pathlib import Path

FAILS = "#!/bin/sh\necho 'npm error code ENOTFOUND' >&2\nexit 1\n"
INSTALLS = (
    "#!/bin/sh\necho got >>calls\n/bin/cp package-lock.json lock\n/bin/mkdir -p node_modules\n"
)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with nothing on its PATH, and nothing kept; the folder of its commands."""
    commands = tmp_path / "bin"
    commands.mkdir()
    monkeypatch.setenv("PATH", str(commands))
    monkeypatch.setenv("SFEVENTS_CLIENTS", str(tmp_path / "kept"))
    return commands


def npm(machine: Path, script: str) -> None:
    command = machine / "npm"
    command.write_text(script)
    command.chmod(0o755)


def test_without_npm_it_says_what_is_missing(machine: Path) -> None:
    """A test that wants the client fails with these words."""
    with pytest.raises(
        ClientsMissingError, match=r"no npm on this machine .*tests/foreign/clients"
    ):
        node_modules()


def test_without_a_registry_it_says_what_npm_said(machine: Path) -> None:
    """The error has npm's reason, and an incomplete folder is made again by the next call."""
    npm(machine, FAILS)
    with pytest.raises(ClientsMissingError, match=r"`npm ci --engine-strict` .*ENOTFOUND"):
        node_modules()
    npm(machine, INSTALLS)
    assert node_modules().is_dir()


def test_what_is_kept_is_not_got_again(machine: Path) -> None:
    """A lock file is installed by one call of npm, and not again."""
    npm(machine, INSTALLS)
    folder = node_modules().parent
    assert node_modules().parent == folder
    assert (folder / "calls").read_text() == "got\n"
    assert (folder / "lock").read_bytes() == (CLIENTS / "package-lock.json").read_bytes()


def test_locks_name_versions_and_no_host() -> None:
    """Locks pin every package, and leave the registry to the machine's npm and pip."""
    lock = (CLIENTS / "package-lock.json").read_text()
    files = [one.read_text().splitlines()[1:] for one in sorted(CLIENTS.glob("*.txt"))]
    pins = [pin for file in files for pin in file]
    assert '"resolved"' not in lock
    assert all("==" in pin and "://" not in pin for pin in pins)
    assert {"pysfpubsub==0.1.2", "aiosfpubsub==0.0.6", "aiosfstream==0.5.0"} <= set(pins)
