"""Allowances of an org, and the check before a fetch."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    QuotaExceededError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.rest.org_limits import (
    DELIVERIES,
    Allowance,
    allowances,
    check_allowance,
    check_least,
    hours_until_empty,
)
from airflow_provider_sfevents.pubsub.topic_names import is_exempt


def test_allowances_are_read() -> None:
    """Each allowance has its maximum and remainder; entries of another shape are left out."""
    said = {
        DELIVERIES: {"Max": 25_000, "Remaining": 24_990},
        "PermissionSets": {
            "Max": 1500,
            "Remaining": 1499,
            "CreateCustom": {"Max": 1000, "Remaining": 999},
        },
        "Odd": {"Max": "many"},
        "Odder": 7,
    }  # fmt: skip
    assert allowances(said) == {
        DELIVERIES: Allowance(name=DELIVERIES, most=25_000, left=24_990),
        "PermissionSets": Allowance(name="PermissionSets", most=1500, left=1499),
    }


@pytest.mark.parametrize("said", [[], None, "x"])
def test_an_answer_that_is_none(said: Any) -> None:
    """An answer that is no object of allowances is a passing error."""
    with pytest.raises(TransportError, match="no object of allowances"):
        allowances(said)


def left(deliveries: int) -> dict[str, Allowance]:
    return {DELIVERIES: Allowance(name=DELIVERIES, most=25_000, left=deliveries)}


@pytest.mark.parametrize(("deliveries", "least"), [(10, 10), (25_000, 1)])
def test_enough_is_left(deliveries: int, least: int) -> None:
    """Exactly as many remaining deliveries as required are enough."""
    assert check_allowance(left(deliveries), least).left == deliveries


def test_too_few_are_left() -> None:
    """The error of a low allowance names remainder and maximum; events stay on the bus."""
    with pytest.raises(
        QuotaExceededError, match=r"has 9 of 25000 deliveries left.*min_allowance=10.*72 hours"
    ):
        check_allowance(left(9), 10)


def test_more_than_the_org_ever_has() -> None:
    """A minimum above the org's maximum is a configuration error; waiting would not help."""
    with pytest.raises(
        ConfigurationError, match=r"may have 25000 deliveries.*min_allowance=25001.*never"
    ):
        check_allowance(left(25_000), 25_001)


def test_an_org_that_does_not_tell() -> None:
    """An org that does not report the allowance is refused."""
    with pytest.raises(ConfigurationError, match="lack DailyDeliveredPlatformEvents"):
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
    """Streams of real-time event monitoring are exempt by their name, and no other topic is."""
    assert is_exempt(topic) is exempt


@pytest.mark.parametrize("given", [None, 1, 100_000])
def test_numbers_of_deliveries(given: int | None) -> None:
    """A number of deliveries is accepted, and so is leaving it out."""
    assert check_least(given) == given


@pytest.mark.parametrize("given", [0, -1, 1.5, "100", True])
def test_what_is_no_number_of_deliveries(given: Any) -> None:
    """A value that is no positive whole number is refused when the DAG is parsed."""
    with pytest.raises(ConfigurationError, match=f"min_allowance={given!r}"):
        check_least(given)


@pytest.mark.parametrize(
    ("by_hour", "rate", "hours"),
    [
        ((0,) * 24, 10.0, 10.0),
        ((0,) * 24, 4.0, None),
        ((50,) * 24, 50.0, None),
        ((50,) * 24, 75.0, 4.0),
        ((*(0,) * 12, *(100,) * 12), 8.0, None),
    ],
)
def test_the_hours_until_an_allowance_is_empty(
    by_hour: tuple[int, ...], rate: float, hours: float | None
) -> None:
    """Deliveries of 24 hours ago count no more, so a steady rate below the maximum lasts."""
    assert hours_until_empty(100, by_hour, rate) == hours
