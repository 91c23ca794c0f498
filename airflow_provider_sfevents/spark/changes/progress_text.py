"""Progress of a source as text, for the one row of `applied_through`."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.changes.order import EventOrder
from airflow_provider_sfevents.spark.changes.source import Break, ChangeSource, Progress

VERSION = 1


def to_text(progress: Progress) -> str:
    """Write it as JSON; times in ISO-8601."""
    return json.dumps({"version": VERSION, **asdict(progress)}, default=datetime.isoformat)


def from_text(text: str) -> Progress:
    """Read what `to_text` wrote.

    :raises StagingError: it is something else, or of another version.
    """
    try:
        parts: dict[str, Any] = json.loads(text)
        version = parts.pop("version")
        broken, opened = parts.pop("last_break"), parts.pop("open_from")
        progress = Progress(
            **{
                **parts,
                "source": ChangeSource(**parts["source"]),
                "heard_since": datetime.fromisoformat(parts["heard_since"]),
                "high_water": _time(parts["high_water"]),
                "last_break": broken
                and Break(
                    order=EventOrder(*broken["order"]), high_water=_time(broken["high_water"])
                ),
                "open_from": opened and EventOrder(*opened),
            }
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StagingError(
            f"`applied_through` cannot be read ({type(error).__name__}: {error}): {text[:200]!r}. "
            "Use the release that wrote it, or restore the "
            "table to its version before that change."
        ) from error
    if version != VERSION:
        raise StagingError(
            f"`applied_through` was written by another release, as version {version!r}; this one "
            f"reads version {VERSION}. Use that release."
        )
    return progress


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
