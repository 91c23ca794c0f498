from __future__ import annotations

import inspect

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_sfevents import exceptions
from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.hooks.airflow_errors import airflow_failures

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
