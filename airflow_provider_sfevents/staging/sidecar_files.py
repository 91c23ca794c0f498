"""Sidecar files: origins of epochs, swept batches, announcements and more; Spark imports them too.

`keepalive_point` is one, too.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass(frozen=True, slots=True, kw_only=True)
class SidecarFile:
    """Content of a sidecar file: the fields of a dataclass as one JSON object."""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse the text of the file.

        :raises ValueError: the text is no JSON object with these fields, each of its type.
        """
        value: Any = json.loads(text)
        types = {name: get_origin(one) or one for name, one in get_type_hints(cls).items()}
        if not isinstance(value, dict) or {name: type(one) for name, one in value.items()} != types:
            raise ValueError(f"not a JSON object with {', '.join(types)}")
        return cls(**value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin(SidecarFile):
    """Beginning of an epoch.

    :param previous: the epoch that it replaced; empty if none was known. Epochs are put in order by
        this, since `created_at` comes from different machines' clocks.
    :param created_at: ISO-8601, UTC; for people.
    :param position: the position at batch number 0, as its record's text.
    """

    epoch: str
    previous: str
    created_at: str
    position: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept(SidecarFile):
    """Evidence of sweeping: a reader can tell a swept batch from one that was never staged.

    :param batch_number: the highest number of a batch of the epoch that was swept.
    """

    batch_number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten(SidecarFile):
    """Record that a user forgot the position on purpose.

    The epochs until then are no longer evidence of a lost position.

    :param id: random; names this act, since two may happen in one second.
    :param at: ISO-8601, UTC; the next position's loss window has it.
    :param epochs: all epochs known until then, this time and earlier; the last is the position's.
    :param last_event_at: creation time of the last event that was committed, if known.
    :param batch_number: of the position; 0 if it was not known.
    """

    id: str
    at: str
    epochs: list[str]
    last_event_at: str = ""
    batch_number: int = 0

    def __post_init__(self) -> None:
        """Refuse a time that no position may have.

        :raises ValueError: see `_check_zone`.
        """
        _check_zone(self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced(SidecarFile):
    """Announcement of a batch by a watcher, which starts a DAG run.

    :param events: number of events of the batch at that time.
    :param at: time of the last announcement; ISO-8601, UTC.
    :param times: number of announcements.
    """

    events: int
    at: str
    times: int

    def __post_init__(self) -> None:
        """Refuse a time that cannot be compared.

        :raises ValueError: see `_check_zone`.
        """
        _check_zone(self.at)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed(SidecarFile):
    """Confirmation by Salesforce that it keeps this replay id for a managed subscription.

    :param replay_id: hex; the end of the batch.
    :param at: ISO-8601, UTC.
    """

    replay_id: str
    at: str


def _check_zone(at: str) -> None:
    """Refuse a text that is no time, or that has no time zone.

    :raises ValueError: it is one of them.
    """
    if datetime.fromisoformat(at).tzinfo is None:
        raise ValueError(f"{at} has no time zone")


def in_order(origins: Iterable[Origin]) -> list[Origin]:
    """Put origins in order: each after the one that it names as previous.

    Epochs whose previous one has no origin here are ordered by their time of beginning. Those times
    come from several machines' clocks, so only housekeeping uses this order.
    """
    sorted_by_time = sorted(origins, key=lambda origin: (origin.created_at, origin.epoch))
    here = {origin.epoch for origin in sorted_by_time}
    after: dict[str, list[Origin]] = defaultdict(list)
    for origin in sorted_by_time:
        after[origin.previous if origin.previous in here else ""].append(origin)
    found: list[Origin] = []
    to_visit = after[""][::-1]
    while to_visit:
        origin = to_visit.pop()
        found.append(origin)
        to_visit += after[origin.epoch][::-1]
    return found
