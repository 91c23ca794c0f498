"""The session of a Spark Connect server: addresses, errors, and a server that is not there."""

from __future__ import annotations

import os

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.submit import connect_session

NOTHING = "sc://127.0.0.1:1"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sc://spark:15002/;user_id=me;token=hidden", "sc://spark:15002"),
        ("sc://spark:15002/", "sc://spark:15002"),
        ("sc://spark", "sc://spark"),
    ],
)
def test_an_address_is_shown_without_user_and_token(url: str, shown: str) -> None:
    """The address in logs and errors has no parameters."""
    assert connect_session.shown_address(url) == shown


@pytest.mark.parametrize(
    "said",
    [
        "[INVALID_HANDLE.SESSION_NOT_FOUND] The handle 1 is invalid. Session not found.",
        "[INVALID_HANDLE.SESSION_CHANGED] The existing Spark server driver instance restarted.",
        "[INVALID_HANDLE.OPERATION_ABANDONED] The handle 2 is invalid.",
        "<_InactiveRpcError: status = StatusCode.UNAVAILABLE>",
        "failed to connect to all addresses; last error: Socket closed",
    ],
)
def test_a_lost_session_is_known_by_the_error(said: str) -> None:
    """Errors of a restarted, ended or unreachable server mean that a new session may go on."""
    assert connect_session.is_lost(RuntimeError(said))


@pytest.mark.parametrize(
    "said",
    ["[TABLE_OR_VIEW_NOT_FOUND] The table cannot be found.", "[OPERATION_CANCELED] Canceled.", ""],
)
def test_other_errors_are_no_lost_session(said: str) -> None:
    """A job that fails by itself is not run again."""
    assert not connect_session.is_lost(RuntimeError(said))


def test_the_first_line_of_an_error_has_no_stack_trace() -> None:
    """An error without a text is shown by its name."""
    error = RuntimeError("[X] It failed.\n\nJVM stacktrace:\norg.apache.spark")
    assert connect_session.first_line(error) == "[X] It failed."
    assert connect_session.first_line(RuntimeError()) == "RuntimeError"


def test_a_server_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the address; PySpark's choice of functions is as before."""
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    with (
        pytest.raises(TransportError, match=r"sc://127\.0\.0\.1:1 does not answer within 0\.2 s"),
        connect_session.open_session(f"{NOTHING}/;token=hidden", seconds=0.2),
    ):
        pytest.fail("there is no server")
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ


def test_another_scheme_is_no_address() -> None:
    """An address that is not `sc://` is refused with its value and the remedy."""
    with (
        pytest.raises(ConfigurationError, match=r"^http://spark is not the address of a Spark Con"),
        connect_session.open_session("http://spark", seconds=0.2),
    ):
        pytest.fail("this is no address")
