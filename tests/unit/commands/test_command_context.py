from __future__ import annotations

import json

import pytest

from airflow_provider_sfevents.commands.command_context import is_of_newer_release
from airflow_provider_sfevents.commands.stores import only_org
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions.record import VERSION


@pytest.mark.parametrize("record", [None, "", "rubbish", "[]", "{}", '{"version": "99"}'])
def test_rubbish_may_be_replaced(record: str | None) -> None:
    """A record without a version may be replaced."""
    assert not is_of_newer_release(record)


def test_a_record_of_a_newer_release_may_not() -> None:
    """A record of a newer release may not be replaced."""
    assert is_of_newer_release(json.dumps({"version": VERSION + 1}))
    assert not is_of_newer_release(json.dumps({"version": VERSION}))


def test_several_orgs_are_not_guessed_at() -> None:
    """The only org is taken, no org is empty text, several are an error that names `--conn-id`."""
    assert only_org({"00D1"}, "asset") == "00D1"
    assert only_org(set(), "asset") == ""
    with pytest.raises(ConfigurationError, match=r"for 2 orgs: 00D1, 00D2.*--conn-id"):
        only_org({"00D2", "00D1"}, "asset")
