"""Replay markers: the last event received on a channel, and the start of a subscription. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any, NamedTuple

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.replay_point import (
    EARLIEST,
    LATEST,
    PRESETS,
    ReplayPoint,
    is_replay_id,
)


class ReplayOption(IntEnum):
    """Start of a subscription without a replay id; the values are the Streaming API's."""

    NEW_EVENTS = -1
    ALL_EVENTS = -2


class ReplayMarker(NamedTuple):
    """Identity of an event on its channel.

    :param date: creation time of the event, as its message has it.
    :param replay_id: a number over the Streaming API; lower-case hex over the Pub/Sub API.
    """

    date: str
    replay_id: int | str


_OPTIONS: dict[int, ReplayPoint] = {
    ReplayOption.NEW_EVENTS: LATEST,
    ReplayOption.ALL_EVENTS: EARLIEST,
}


def start_from(value: object) -> ReplayPoint:
    """Return the replay point of a user's value.

    :param value: a `ReplayOption`, -1, -2, `latest`, `earliest`, a replay id (a number or hex), a
        `ReplayPoint`, a `ReplayMarker` or its two items in a list. None: `latest`.
    :returns: a number becomes hex without leading zeros, which no id of the Pub/Sub API is.
    :raises ConfigurationError: it is none of these.
    """
    if value is None:
        return LATEST
    if isinstance(value, ReplayPoint):
        return value
    if isinstance(value, Sequence) and not isinstance(value, str) and len(value) == 2:
        return start_from(value[1])
    if isinstance(value, int) and value >= ReplayOption.ALL_EVENTS:
        return _OPTIONS[value] if value in _OPTIONS else ReplayPoint(f"{value:x}")
    if isinstance(value, str) and (value in PRESETS or is_replay_id(value)):
        return ReplayPoint(value)
    raise ConfigurationError(
        f"{value!r} is no start of a subscription. Give ReplayOption.NEW_EVENTS, "
        "ReplayOption.ALL_EVENTS, or the replay id of an event."
    )


def marker_of(message: Mapping[str, Any]) -> ReplayMarker:
    """Return the marker of a received message.

    Its date is `event.createdDate`, `payload.CreatedDate` or the commit time of a change, as the
    kind of the event has one; otherwise empty.
    """
    data = message["data"]
    return ReplayMarker(date=_date_of(data), replay_id=data["event"]["replayId"])


def _date_of(data: Mapping[str, Any]) -> str:
    if "createdDate" in data["event"]:
        return str(data["event"]["createdDate"])
    payload = data.get("payload")
    if not isinstance(payload, Mapping):
        return ""
    header = payload.get("ChangeEventHeader")
    if isinstance(header, Mapping):
        return str(header.get("commitTimestamp", ""))
    return str(payload.get("CreatedDate", ""))
