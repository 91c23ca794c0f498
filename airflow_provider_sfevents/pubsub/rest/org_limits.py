"""Limits of an org: the allowances of its REST resource `limits`, and the check before a fetch.

Sources: Platform Events Developer Guide, "Platform Event Allocations"; REST API Developer Guide,
"Limits".
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    QuotaExceededError,
    SfEventsError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.topic_names import TopicKind, is_exempt, kind_of, retention

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls

log = logging.getLogger(__name__)

DELIVERIES = "DailyDeliveredPlatformEvents"

EVENT_ALLOWANCES: Mapping[str, str] = {
    DELIVERIES: "platform and change events delivered in 24 hours, counted for each subscriber",
    "HourlyPublishedPlatformEvents": "platform events published in an hour",
    "MonthlyPlatformEventsUsageEntitlement": (
        "platform and change events delivered in a month, if the org has bought more"
    ),
    "DailyStandardVolumePlatformEvents": "standard-volume platform events delivered in 24 hours",
    "DailyStreamingApiEvents": "PushTopic events in 24 hours",
    "DailyDurableStreamingApiEvents": "PushTopic events in 24 hours, replayable",
    "DailyGenericStreamingApiEvents": "generic events in 24 hours",
    "DailyDurableGenericStreamingApiEvents": "generic events in 24 hours, replayable",
    "StreamingApiConcurrentClients": "CometD clients at once",
    "DurableStreamingApiConcurrentClients": "CometD clients at once, with replay",
}
"""Allowances of events, and the unit that each counts."""

_LEGACY_ALLOWANCES = {
    TopicKind.PUSH_TOPIC: "DailyDurableStreamingApiEvents",
    TopicKind.GENERIC: "DailyDurableGenericStreamingApiEvents",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """One allowance of the org.

    :param most: the org's maximum.
    :param left: the remainder when it was read.
    """

    name: str
    most: int
    left: int


async def read_limits(rest: RestCalls) -> dict[str, Allowance]:
    """All allowances of the org, by name; one API request.

    :raises SfEventsError: they cannot be read.
    """
    said, _ = await rest.get("/limits", "Reading the org's limits")
    return allowances(said)


def allowances(said: Any) -> dict[str, Allowance]:
    """Allowances of the answer; entries of another shape are left out.

    :raises TransportError: the answer has another form.
    """
    if not isinstance(said, dict):
        raise TransportError(
            "Reading the org's limits: the answer is no object of allowances. Try again later."
        )
    return {
        name: Allowance(name=name, most=one["Max"], left=one["Remaining"])
        for name, one in said.items()
        if isinstance(one, dict)
        and isinstance(one.get("Max"), int)
        and isinstance(one.get("Remaining"), int)
    }


async def require_allowance(
    rest: RestCalls, topic: str, least: int, seen: Callable[[str, Allowance], None] | None = None
) -> None:
    """Refuse to begin while the org has fewer deliveries left than `least`.

    :param seen: called in a thread with the org's id and the allowance before that is judged; not
        if deliveries are not counted.
    :raises QuotaExceededError: too few are left.
    :raises SfEventsError: the number cannot be read; of the same class as the failure.
    """
    if is_exempt(topic):
        log.info("Deliveries on %s are not counted against the org's allowance.", topic)
        return
    try:
        found = await read_limits(rest)
    except SfEventsError as error:
        raise type(error)(
            "The org's remaining deliveries cannot be read, so no events were requested "
            f"(min_allowance={least}): {error}"
        ) from error
    if seen and (one := found.get(allowance_of(topic))):
        await asyncio.to_thread(seen, (await rest.session()).org_id, one)
    left = check_allowance(found, least, topic)
    log.info("The org has %d of %s left.", left.left, counted(left.most, "delivery", "deliveries"))


def allowance_of(topic: str) -> str:
    """Name of the allowance that counts a topic's deliveries."""
    return _LEGACY_ALLOWANCES.get(kind_of(topic), DELIVERIES)


def check_allowance(found: Mapping[str, Allowance], least: int, topic: str = "") -> Allowance:
    """The allowance of a topic's deliveries.

    :raises QuotaExceededError: fewer are left.
    :raises ConfigurationError: the org does not report it, or its maximum is lower.
    """
    name = allowance_of(topic)
    left = found.get(name)
    if left is None:
        raise ConfigurationError(
            f"The org's limits lack {name}, so no events were requested "
            f"(min_allowance={least}). Give the user the permission View Setup and "
            "Configuration, or leave min_allowance out."
        )
    if left.most < least:
        raise ConfigurationError(
            f"The org may have {counted(left.most, 'delivery', 'deliveries')} in 24 hours "
            f"({name}), and min_allowance={least} is more: so many are never left, so "
            "no events were requested. Lower min_allowance."
        )
    if left.left < least:
        hours = retention(topic) // timedelta(hours=1)
        raise QuotaExceededError(
            f"The org has {left.left} of {counted(left.most, 'delivery', 'deliveries')} left "
            f"({name}, of 24 hours), and min_allowance={least}: no events were requested. Events "
            f"stay on the bus for {hours} hours; run the task again after other subscribers have "
            "used less, or lower min_allowance."
        )
    return left


def hours_until_empty(left: int, by_hour: Sequence[int], rate: float) -> float | None:
    """Return the hours until an allowance of 24 hours is used up; None: it is not.

    What was delivered 24 hours ago counts no more, so a steady rate below the maximum never uses it
    up. Other subscribers are assumed to take as much in each hour as 24 hours before.

    :param by_hour: own deliveries of each of the last 24 hours, oldest first.
    :param rate: own deliveries in an hour from now on.
    """
    remaining = float(left)
    for passed, freed in enumerate(by_hour):
        if remaining + freed - rate < 0:
            return passed + remaining / (rate - freed)
        remaining += freed - rate
    return None


def check_least(min_allowance: int | None) -> int | None:
    """Check an operator's argument.

    :raises ConfigurationError: it is no number of deliveries.
    """
    if min_allowance is not None and (type(min_allowance) is not int or min_allowance < 1):
        raise ConfigurationError(
            f"min_allowance={min_allowance!r} is no number of deliveries; give a whole number from "
            "1 on, or leave it out."
        )
    return min_allowance
