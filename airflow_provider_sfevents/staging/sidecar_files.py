"""Sidecar files: keepalive points, origins of epochs, swept batches, announcements and more.

Spark imports them too.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Mark = TypeVar("Mark")


@dataclass(frozen=True, slots=True, kw_only=True)
class KeepalivePoint:
    """Keepalive point: the last keepalive's replay id, newer than the last event of a silent topic.

    It counts only while the position has this epoch and batch number, and while the next batch
    continues after `after`. Both are compared for equality, so any process may write it at any
    time.

    :param replay_id: hex.
    :param seen_at: when the keepalive came, by that machine's clock; ISO-8601, UTC. Used for
        warnings only.
    :param after: the replay point (text form) after which the keepalive came: the end of the last
        staged file, or the start of the next batch.
    """

    epoch: str
    batch_number: int
    replay_id: str
    seen_at: str
    after: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> KeepalivePoint:
        """Parse the text of the sidecar file.

        :raises ValueError: the text is no keepalive point.
        """
        return _strict(
            cls, text, epoch=str, batch_number=int, replay_id=str, seen_at=str, after=str
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
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

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Origin:
        """Parse the text of the sidecar file.

        :raises ValueError: the text is no origin.
        """
        return _strict(cls, text, epoch=str, previous=str, created_at=str, position=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Evidence of sweeping: a reader can tell a swept batch from one that was never staged.

    :param batch_number: the highest number of a batch of the epoch that was swept.
    """

    batch_number: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Swept:
        """Parse the text of the sidecar file.

        :raises ValueError: the text is no such record.
        """
        return _strict(cls, text, batch_number=int)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """Record that a user forgot the position on purpose.

    The epochs until then are no longer evidence of a lost position.

    :param id: random; names this act, since two may happen in one second.
    :param at: ISO-8601, UTC; for people.
    :param epochs: all epochs known until then, this time and earlier; the last is the position's.
    :param last_event_at: creation time of the last event that was committed, if known.
    """

    id: str
    at: str
    epochs: list[str]
    last_event_at: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Forgotten:
        """Parse the text of the sidecar file.

        :raises ValueError: the text is no such record.
        """
        return _strict(cls, text, id=str, at=str, epochs=list, last_event_at=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """Announcement of a batch by a watcher, which starts a DAG run.

    :param events: number of events of the batch at that time.
    :param at: time of the last announcement; ISO-8601, UTC.
    :param times: number of announcements.
    """

    events: int
    at: str
    times: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Announced:
        """Parse the text of the sidecar file.

        :raises ValueError: the text is no announcement.
        """
        mark = _strict(cls, text, events=int, at=str, times=int)
        if datetime.fromisoformat(mark.at).tzinfo is None:
            raise ValueError(f"{mark.at} has no time zone")
        return mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """Confirmation by Salesforce that it keeps this replay id for a managed subscription.

    :param replay_id: hex; the end of the batch.
    :param at: ISO-8601, UTC.
    """

    replay_id: str
    at: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Confirmed:
        """Parse the text of the sidecar file.

        :raises ValueError: the text is no confirmation.
        """
        return _strict(cls, text, replay_id=str, at=str)


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


def _strict(kind: Callable[..., Mark], text: str, **fields: type) -> Mark:
    value: Any = json.loads(text)
    if not isinstance(value, dict) or {name: type(one) for name, one in value.items()} != fields:
        raise ValueError(f"not a JSON object with {', '.join(fields)}")
    return kind(**value)
