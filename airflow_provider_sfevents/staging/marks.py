"""Small records beside the batches: keepalives, origins of epochs, forgotten positions, announcements."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Mark = TypeVar("Mark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A keepalive's replay id: fresher than the end of the last event of a silent topic.

    It counts only while the position has this epoch and sequence, and while the coming batch goes on
    after `after`. Both are compared for equality, so any process may write it at any time.

    :param replay_id: hex.
    :param seen_at: when the keepalive came, by that machine's clock; ISO-8601, UTC. It decides
        about warnings only.
    :param after: the replay point (text form) that the keepalive was heard after: the end of the
        last staged file, or where the coming batch begins.
    """

    epoch: str
    sequence: int
    replay_id: str
    seen_at: str
    after: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Anchor:
        """:raises ValueError: the text is no anchor."""
        return _strict(cls, text, epoch=str, sequence=int, replay_id=str, seen_at=str, after=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """How an epoch began.

    :param previous: the epoch that it replaced; empty if none was known. Epochs are put in order by
        this, since `created_at` comes from different machines' clocks.
    :param created_at: ISO-8601, UTC; for people.
    :param position: the position at sequence 0, as its record's text.
    """

    epoch: str
    previous: str
    created_at: str
    position: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Origin:
        """:raises ValueError: the text is no origin."""
        return _strict(cls, text, epoch=str, previous=str, created_at=str, position=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """A user forgot the position on purpose: the epochs until then no longer tell a lost position from a first run.

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
        """:raises ValueError: the text is no such mark."""
        return _strict(cls, text, id=str, at=str, epochs=list, last_event_at=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """A watcher has said that this batch is there, so that a DAG runs.

    :param events: it had then.
    :param at: of the last time; ISO-8601, UTC.
    :param times: how often it was said.
    """

    events: int
    at: str
    times: int

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Announced:
        """:raises ValueError: the text is no such mark."""
        mark = _strict(cls, text, events=int, at=str, times=int)
        if datetime.fromisoformat(mark.at).tzinfo is None:
            raise ValueError(f"{mark.at} has no time zone")
        return mark


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """Salesforce has said that it keeps this place of a managed subscription.

    :param replay_id: hex; the end of the batch it lies beside.
    :param at: ISO-8601, UTC.
    """

    replay_id: str
    at: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Confirmed:
        """:raises ValueError: the text is no such mark."""
        return _strict(cls, text, replay_id=str, at=str)


def _strict(kind: Callable[..., Mark], text: str, **fields: type) -> Mark:
    value: Any = json.loads(text)
    if not isinstance(value, dict) or {name: type(one) for name, one in value.items()} != fields:
        raise ValueError(f"not a JSON object with {', '.join(fields)}")
    return kind(**value)
