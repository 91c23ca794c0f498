"""Small records beside the batches: where a quiet topic stands, and where each epoch began."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

Mark = TypeVar("Mark")


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A keepalive's replay id: a fresher place to start from than a position whose topic is silent.

    It counts only while the position still has this epoch and sequence, so that it may be written at any time by anybody.

    :param replay_id: hex.
    :param seen_at: when the keepalive came; ISO-8601, UTC.
    """

    epoch: str
    sequence: int
    replay_id: str
    seen_at: str

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Anchor:
        """:raises ValueError: the text is no anchor."""
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


def _strict(kind: Callable[..., Mark], text: str, **fields: type) -> Mark:
    value: Any = json.loads(text)
    if not isinstance(value, dict) or {name: type(one) for name, one in value.items()} != fields:
        raise ValueError(f"not a JSON object with {', '.join(fields)}")
    return kind(**value)
