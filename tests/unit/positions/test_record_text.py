from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions import record_text


def test_keys() -> None:
    """The keys of positions in the stores are public."""
    assert record_text.variable_key("load", "/event/Order__e") == "sfevents.load.event.Order__e"
    assert record_text.asset_key("load") == "sfevents.load"
    assert record_text.xcom_key("/data/ChangeEvents") == "sfevents.position.data.ChangeEvents"


def test_a_key_that_airflow_cannot_keep_is_refused() -> None:
    """A Variable's key of more than 250 characters is refused, although SQLite would accept it."""
    with pytest.raises(ConfigurationError, match="Name a shorter `consumer`"):
        record_text.variable_key("x" * 250, "/event/Order__e")


@given(st.from_regex(r"[\w.-]{1,50}", fullmatch=True))
def test_what_a_dag_may_be_called_names_a_consumer(name: str) -> None:
    """Every DAG id that Airflow accepts is a valid consumer."""
    assert record_text.check_consumer(name) == name


@pytest.mark.parametrize(
    "name",
    ["", " ", "a b", "a/b", "../a", "a=b", "a\n", "a:b", "a%2Fb", "a?b", "a#b", "None", None, 7],
)
def test_a_consumer_that_some_store_refuses(name: str) -> None:
    """A consumer that no Variable's key, folder or environment variable can hold is refused."""
    with pytest.raises(ConfigurationError) as raised:
        record_text.check_consumer(name)
    assert f"consumer={name!r}" in str(raised.value)
    assert "letters, digits, dots, dashes and underscores" in str(raised.value)
