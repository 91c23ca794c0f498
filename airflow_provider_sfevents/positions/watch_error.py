"""Last error of a watcher, as an Airflow Variable keeps it beside the position. Pure."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from airflow_provider_sfevents.staging.layout import topic_name

_PREFIX = "sfevents_watch."  # no position's: those begin with `sfevents.`

_LENGTH = 400  # characters of an error; the triggerer's log has all of it


def watch_error_key(consumer: str, topic: str) -> str:
    """Return the key of the Variable."""
    return f"{_PREFIX}{consumer}.{topic_name(topic)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchError:
    """Error that kept a watcher from listening.

    :param message: one line, without secrets.
    :param at: time of its first occurrence; ISO-8601, UTC.
    :param ended_at: time at which the watcher listened again; empty: it does not yet.
    """

    message: str
    at: str
    ended_at: str = ""

    @classmethod
    def of(cls, message: str, at: str) -> WatchError:
        line = " ".join(message.split())
        return cls(message=line if len(line) <= _LENGTH else f"{line[:_LENGTH]}…", at=at)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WatchError | None:
        """Parse a record; None: it is none."""
        try:
            value = json.loads(text)
            return cls(**{name: str(value[name]) for name in ("message", "at", "ended_at")})
        except (ValueError, TypeError, KeyError):
            return None
