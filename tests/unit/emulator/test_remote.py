"""State files: their path, permissions and owner."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.emulator.cli.remote import EmulatorAddress, is_trusted, state_file
from airflow_provider_sfevents.emulator.errors import EmulatorError

if TYPE_CHECKING:
    from collections.abc import Mapping

HERE = EmulatorAddress(
    url="http://127.0.0.1:1",
    endpoint="127.0.0.1:2",
    login_url="http://127.0.0.1:3",
    org_id="00D000000000001EAA",
    ca_file="",
    pid=1,
    token="s3cret",
)


def test_only_its_user_can_read_it(tmp_path: Path) -> None:
    """Only its user can read a state file, and it is read back unchanged."""
    path = tmp_path / "deep" / "emulator.json"
    HERE.write(path)
    HERE.write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert EmulatorAddress.read(path) == HERE
    assert [one.name for one in path.parent.iterdir()] == ["emulator.json"]
    assert "s3cret" not in repr(HERE)


@pytest.mark.parametrize("planted", ["emulator.json", "emulator.json.new"])
def test_nothing_is_written_through_a_link(tmp_path: Path, planted: str) -> None:
    """A link of another user is replaced or ignored, and its target is unchanged."""
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / planted).symlink_to(victim)
    HERE.write(tmp_path / "emulator.json")
    assert victim.read_text() == "mine"
    assert EmulatorAddress.read(tmp_path / "emulator.json") == HERE


@pytest.mark.parametrize(
    ("owner", "user", "believed"),
    [(1000, 1000, True), (0, 1000, True), (1001, 1000, False), (1000, 0, True), (0, 0, True)],
)
def test_only_the_users_own_file_is_believed(owner: int, user: int, believed: bool) -> None:
    """Another user's file does not select the emulator of the commands."""
    assert is_trusted(owner, user) is believed


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"XDG_RUNTIME_DIR": "/run/user/7"}, "/run/user/7/sfevents-emulator.json"),
        ({"XDG_STATE_HOME": "/home/u/.state"}, "/home/u/.state/sfevents-emulator.json"),
        ({}, "/home/u/.local/state/sfevents-emulator.json"),
    ],
)
def test_it_is_in_no_shared_folder(
    monkeypatch: pytest.MonkeyPatch, environment: Mapping[str, str], expected: str
) -> None:
    """Without a folder the state file is in the user's own, never in a shared one."""
    for name in ("XDG_RUNTIME_DIR", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/u", **environment}.items():
        monkeypatch.setenv(name, value)
    assert state_file() == Path(expected)
    assert state_file("/some/folder") == Path("/some/folder/emulator.json")


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The error says which option names another state file."""
    with pytest.raises(EmulatorError, match=r"cannot write to .*; make room there, .* --state"):
        HERE.write(tmp_path)


def test_a_file_without_a_token_is_none(tmp_path: Path) -> None:
    """A file that is no state file is refused with its name."""
    path = tmp_path / "emulator.json"
    path.write_text('{"url": "http://127.0.0.1:1"}')
    with pytest.raises(EmulatorError, match="is not an emulator's state file"):
        EmulatorAddress.read(path)
