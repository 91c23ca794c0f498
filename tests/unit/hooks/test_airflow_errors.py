from __future__ import annotations

import inspect

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_sfevents import exceptions
from airflow_provider_sfevents.exceptions import ConfigurationError, SfEventsError, TransportError
from airflow_provider_sfevents.hooks.airflow_errors import airflow_failures, not_found

FOR_GOOD = {
    "ConfigurationError",
    "TopicError",
    "ReplayIdRefusedError",
    "SchemaUnknownError",
    "PositionConflictError",
    "AuthenticationError",
    "QuotaExceededError",
}
OURS = [
    kind
    for _, kind in inspect.getmembers(exceptions, inspect.isclass)
    if issubclass(kind, SfEventsError)
]


@pytest.mark.parametrize("kind", OURS)
def test_each_error_is_retried_or_not(kind: type[SfEventsError]) -> None:
    """Errors that need a person end the task, others are retried; the message is unchanged."""
    with pytest.raises(AirflowException) as raised, airflow_failures():
        raise kind("this and that; do so")
    assert isinstance(raised.value, AirflowFailException) == (kind.__name__ in FOR_GOOD)
    assert str(raised.value) == "this and that; do so"
    assert isinstance(raised.value.__context__, kind)
    assert raised.value.__suppress_context__


def test_other_errors_stay_what_they_are() -> None:
    """An error of another kind, a defect, passes unchanged."""
    with pytest.raises(ZeroDivisionError), airflow_failures():
        _ = 1 / 0


@pytest.mark.parametrize(
    ("answer", "backend", "kind", "said"),
    [
        ("", "", ConfigurationError, "Connection 'a' is not defined. Create it."),
        ("CONNECTION_NOT_FOUND", "", ConfigurationError, "is not defined. Create it."),
        ("CONNECTION_NOT_FOUND", "vault.Backend", TransportError, "vault.Backend could not be"),
        ("API_SERVER_ERROR", "", TransportError, "could not be read (API_SERVER_ERROR)"),
        ("it can be read again", "", TransportError, "could not be read (it can be read again)"),
    ],
)
def test_a_connection_that_cannot_be_read_is_not_missing(
    answer: str, backend: str, kind: type[SfEventsError], said: str
) -> None:
    """Only a connection that Airflow is known not to have fails the task for good."""
    error = not_found("Connection 'a'", "Create it.", answer, backend)
    assert type(error) is kind
    assert said in str(error)
