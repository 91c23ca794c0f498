"""Events as JSON text, for the table of events that are set aside.

Elsewhere events travel as columns. They are text here for two reasons: one table holds events of
all entities, whose columns differ; and an event may wait while the columns of its entity change.
"""

from __future__ import annotations

import base64
import json
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.changes.event import Change
from airflow_provider_sfevents.spark.changes.order import EventOrder

if TYPE_CHECKING:
    from collections.abc import Callable

VERSION = 1
_NAMES = ("record_ids", "changed", "nulled", "diffs")
_encode = json.JSONEncoder(
    ensure_ascii=False
).encode  # json.dumps would make another one for each event


def to_text(change: Change) -> str:
    """Write an event as JSON; values that JSON has no type for as `{"$<type>": text}`.

    :raises TypeError: a value is of a type that no column has.
    """
    parts = {name: getattr(change, name) for name in Change.__dataclass_fields__}
    # A named tuple would be written as a list all the same; this says so.
    parts["order"] = list(change.order)
    parts["values"] = {
        name: _plain(value) for name, value in change.values.items() if value is not None
    }
    parts["committed_at"] = change.committed_at.isoformat()
    return _encode({"version": VERSION, **parts})


def from_text(text: str) -> Change:
    """Read what `to_text` wrote.

    :raises StagingError: it is something else, or of another version.
    """
    try:
        parts = json.loads(text)
        version = parts.pop("version")
        parts["order"] = EventOrder(*parts["order"])
        parts["committed_at"] = datetime.fromisoformat(parts["committed_at"])
        parts["values"] = {name: _value(value) for name, value in parts["values"].items()}
        parts |= {name: tuple(parts[name]) for name in _NAMES}
        change = Change(**parts)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StagingError(
            f"An event that was kept cannot be read ({type(error).__name__}: {error}): "
            f"{text[:200]!r}. Restore the table to its version "
            "before that change, or run an entity snapshot of the whole entity."
        ) from error
    if version != VERSION:
        raise StagingError(
            f"An event was kept by another release, as version {version!r}; this one reads "
            f"version {VERSION}. Resolve with the release "
            "that wrote it, then go on with this one."
        )
    return change


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    for kind, (of, write, _) in _TAGGED.items():
        if isinstance(value, of):
            return {kind: write(value)}
    raise TypeError(f"{value!r} of type {type(value).__name__} is no value of a column")


def _value(plain: Any) -> Any:
    if isinstance(plain, list):
        return [_value(item) for item in plain]
    if isinstance(plain, dict):
        ((kind, inner),) = plain.items()
        return _TAGGED[kind][2](inner)
    return plain


# A datetime is a date, too: the first that fits counts.
_TAGGED: dict[str, tuple[type, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "$timestamp": (datetime, datetime.isoformat, datetime.fromisoformat),
    "$date": (date, date.isoformat, date.fromisoformat),
    "$decimal": (Decimal, str, Decimal),
    "$binary": (bytes, lambda raw: base64.b64encode(raw).decode(), base64.b64decode),
    "$struct": (
        dict,
        lambda members: {name: _plain(member) for name, member in members.items()},
        lambda members: {name: _value(member) for name, member in members.items()},
    ),
}
