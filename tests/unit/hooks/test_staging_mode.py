from __future__ import annotations

import grp
import logging
import os
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.staging_access import open_staging, staging_root
from airflow_provider_sfevents.hooks.staging_mode import modes_of
from airflow_provider_sfevents.staging.storage import file_modes

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OWN = grp.getgrgid(os.getegid()).gr_name


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    yield
    file_modes.use(file_modes.PRIVATE)


@pytest.mark.parametrize(
    ("mode", "group", "expected"),
    [
        ("private", "", file_modes.PRIVATE),
        ("inherit", "", file_modes.INHERIT),
        ("group", OWN, file_modes.group(os.getegid())),
    ],
)
def test_settings(mode: str, group: str, expected: file_modes.Modes) -> None:
    """Each setting gives its modes."""
    assert modes_of(mode, group) == expected


@pytest.mark.parametrize(
    ("mode", "group", "said"),
    [
        ("0600", "", "staging_mode = 0600 is none of private, group, inherit"),
        ("group", "", "needs the name of a group: set [sfevents] staging_group"),
        ("private", OWN, f"staging_group = {OWN} has no effect with [sfevents] staging_mode"),
        ("group", "no-such-group", "staging_group = no-such-group: this machine has no such group"),
    ],
)
def test_wrong_settings_are_refused(
    mode: str, group: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error for a wrong setting names setting, value and remedy."""
    monkeypatch.setenv("AIRFLOW__SFEVENTS__STAGING_MODE", mode)
    monkeypatch.setenv("AIRFLOW__SFEVENTS__STAGING_GROUP", group)
    with pytest.raises(ConfigurationError) as raised:
        open_staging(f"file://{tmp_path}/staging", None)
    assert said in str(raised.value)
    assert not (tmp_path / "staging").exists()


def test_the_setting_counts_for_what_is_staged(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A staging area is private by default, and otherwise as Airflow's setting says."""
    open_staging(f"file://{tmp_path}/one", None).staging_id()
    assert (tmp_path / "one").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "one" / "_area.json").stat().st_mode & 0o777 == 0o600
    monkeypatch.setenv("AIRFLOW__SFEVENTS__STAGING_MODE", "inherit")
    staging_root(f"file://{tmp_path}/one")
    assert file_modes.in_use() == file_modes.INHERIT


def test_a_wider_folder_is_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One warning names folder and command; a second opening logs nothing."""
    tmp_path.chmod(0o755)
    for name in ("00D1", "00D2"):
        (tmp_path / name).mkdir(mode=0o755)
    with caplog.at_level(logging.WARNING):
        open_staging(f"file://{tmp_path}", None)
        open_staging(f"file://{tmp_path}", None)
    [said] = caplog.messages
    assert said.startswith(f"Other users can open {tmp_path}/00D1, although [sfevents] staging_mo")
    assert said.endswith(f"chmod -R go-rwx '{tmp_path}'")
