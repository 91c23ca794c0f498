"""What an org may still do, and whether that is enough to begin."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    QuotaExceeded,
    TransportError,
)
from airflow_provider_sfevents.pubsub.rest.org_limits import (
    DELIVERIES,
    Allowance,
    allowances,
    check_allowance,
    check_least,
)
from airflow_provider_sfevents.pubsub.topic_names import is_exempt


def test_allowances_are_read() -> None:
    """Each with what the org may have and has left; limits of apps nest others below, and what is no pair is left out."""
    said = {
        DELIVERIES: {"Max": 25_000, "Remaining": 24_990},
        "PermissionSets": {"Max": 1500, "Remaining": 1499, "CreateCustom": {"Max": 1000, "Remaining": 999}},
        "Odd": {"Max": "many"},
        "Odder": 7,
    }  # fmt: skip
    assert allowances(said) == {
        DELIVERIES: Allowance(name=DELIVERIES, most=25_000, left=24_990),
        "PermissionSets": Allowance(name="PermissionSets", most=1500, left=1499),
    }


@pytest.mark.parametrize("said", [[], None, "x"])
def test_an_answer_that_is_none(said: Any) -> None:
    """Something else than the org answered; that passes."""
    with pytest.raises(TransportError, match="no object of allowances"):
        allowances(said)


def left(deliveries: int) -> dict[str, Allowance]:
    return {DELIVERIES: Allowance(name=DELIVERIES, most=25_000, left=deliveries)}


@pytest.mark.parametrize(("deliveries", "least"), [(10, 10), (25_000, 1)])
def test_enough_is_left(deliveries: int, least: int) -> None:
    """As many as asked for are enough."""
    assert check_allowance(left(deliveries), least).left == deliveries


def test_too_few_are_left() -> None:
    """The error says how many there are, of how many, and what became of the events."""
    with pytest.raises(
        QuotaExceeded, match=r"has 9 of 25000 deliveries left.*min_allowance=10.*72 hours"
    ):
        check_allowance(left(9), 10)


def test_more_than_the_org_ever_has() -> None:
    """Waiting would not help."""
    with pytest.raises(
        ConfigurationError, match=r"may have 25000 deliveries.*min_allowance=25001.*never"
    ):
        check_allowance(left(25_000), 25_001)


def test_an_org_that_does_not_tell() -> None:
    """Not knowing is not enough."""
    with pytest.raises(ConfigurationError, match="do not tell DailyDeliveredPlatformEvents"):
        check_allowance({}, 1)


@pytest.mark.parametrize(
    ("topic", "exempt"),
    [
        ("/event/LoginEventStream", True),
        ("/event/Order__e", False),
        ("/event/BatchApexErrorEvent", False),
        ("/event/My__EventStream", False),
        ("/event/Watch_EventStream__e", False),
        ("/data/AccountChangeEvent", False),
        ("/data/ChangeEvents", False),
    ],
)
def test_deliveries_of_monitoring_are_free(topic: str, exempt: bool) -> None:
    """Streams of real-time event monitoring are told by their name; what is not sure counts."""
    assert is_exempt(topic) is exempt


@pytest.mark.parametrize("given", [None, 1, 100_000])
def test_numbers_of_deliveries(given: int | None) -> None:
    """Left out, it is not looked at."""
    assert check_least(given) == given


@pytest.mark.parametrize("given", [0, -1, 1.5, "100", True])
def test_what_is_no_number_of_deliveries(given: Any) -> None:
    """Refused when the DAG is parsed."""
    with pytest.raises(ConfigurationError, match=f"min_allowance={given!r}"):
        check_least(given)
