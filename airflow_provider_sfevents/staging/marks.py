"""Small records beside the batches: where a quiet topic stands, where each epoch began, what was forgotten by hand, what was announced."""

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
    """A keepalive's replay id: a fresher place to subscribe at than the end of what a silent topic had last.

    It counts only while the position still has this epoch and sequence, so that it may be written at any time by anybody; and only
    while the coming batch's files end where they did, as nothing else is known to lie before it.

    :param replay_id: hex.
    :param seen_at: when the keepalive came; ISO-8601, UTC.
    :param after: replay id, hex, at which the last file staged of the coming batch ended then; empty where there was none.
    """

    epoch: str
    sequence: int
    replay_id: str
    seen_at: str
    after: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Anchor:
        """:raises ValueError: the text is no anchor."""
        try:
            return _strict(
                cls, text, epoch=str, sequence=int, replay_id=str, seen_at=str, after=str
            )
        except ValueError:  # written before anchors could follow files
            return _strict(cls, text, epoch=str, sequence=int, replay_id=str, seen_at=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """How an epoch began.

    :param created_at: ISO-8601, UTC; puts the epochs of a topic in order.
    :param position: the position at sequence 0, as its record's text.
    """

    epoch: str
    created_at: str
    position: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Origin:
        """:raises ValueError: the text is no origin."""
        return _strict(cls, text, epoch=str, created_at=str, position=str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forgotten:
    """Somebody forgot the position on purpose: what landed in epochs begun before no longer tells a lost position from a first run.

    :param at: ISO-8601, UTC.
    """

    at: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Forgotten:
        """:raises ValueError: the text is no such mark."""
        return _strict(cls, text, at=str)


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
