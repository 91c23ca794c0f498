from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions import text


def test_keys() -> None:
    """The names under which positions are found are public."""
    assert text.variable_key("load", "/event/Order__e") == "sfevents.load.event.Order__e"
    assert text.asset_key("load") == "sfevents.load"
    assert text.xcom_key("/data/ChangeEvents") == "sfevents.position.data.ChangeEvents"


def test_a_key_that_airflow_cannot_keep_is_refused() -> None:
    """A Variable's key has 250 characters at most; SQLite would not tell."""
    with pytest.raises(ConfigurationError, match="Name a shorter `consumer`"):
        text.variable_key("x" * 250, "/event/Order__e")


@given(st.binary(min_size=1))
def test_every_replay_id_has_a_text_form(replay_id: bytes) -> None:
    """Replay ids are opaque: any bytes are one."""
    assert text.is_replay_id(replay_id.hex())


@pytest.mark.parametrize("value", ["", "a", "0A", "0x0a", " 0a", "0a\n", "latest", "zz"])
def test_what_is_no_replay_id(value: str) -> None:
    """Only lower-case hex of whole bytes is."""
    assert not text.is_replay_id(value)
