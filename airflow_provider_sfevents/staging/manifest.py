"""The values written beside a batch's files: what was staged, and what landed. Plain JSON; Spark reads them too."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from airflow_provider_sfevents.exceptions import StagingError

VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One closed Parquet file; complete in itself, so that a batch can go on after it.

    :param path: below the batch's folder.
    :param start: where its events begin: `earliest`, `latest` or a replay id in hex; they lie strictly after it.
    :param end: replay id of its last event, hex.
    :param first_ordinal: ordinal of its first event in the batch.
    :param bytes: sum of its payloads' sizes.
    :param sha256: over the rows, as `staging.writer` defines it; hex.
    :param schemas: ids of the schemas its events were written with.
    """

    path: str
    start: str
    end: str
    first_ordinal: int
    events: int
    bytes: int
    sha256: str
    schemas: tuple[str, ...]

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Part:
        return cls(**{**value, "schemas": tuple(value["schemas"])})


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Which task of Airflow did something; empty outside of Airflow."""

    dag: str = ""
    run: str = ""
    task: str = ""
    map_index: int = -1
    try_number: int = 0
    logical_date: str = ""
    data_interval_start: str = ""
    data_interval_end: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A staged batch.

    :param position_start: where the position it was fetched for stood, in the text form of `start`.
    :param start: what the first event lies after: `position_start`, or the position's anchor.
    :param end: replay id of the last event, hex.
    :param ended_by: `max_events`, `max_bytes`, `max_seconds`, `idle_seconds`, `until` or `error`.
    :param error: with `ended_by="error"`: what ended it, as a message for the user.
    :param parts: the files, each starting where the one before ended.
    :param overlaps: the bus may deliver events again that have landed; landing must compare identities.
    :param losses: loss windows this batch begins with.
    """

    org_id: str
    instance_url: str
    topic: str
    consumer: str
    epoch: str
    sequence: int
    batch_id: str
    position_start: str
    start: str
    end: str
    events: int
    bytes: int
    ended_by: str
    parts: tuple[Part, ...]
    schemas: tuple[str, ...]
    created_at: str
    run: Run = field(default_factory=Run)
    error: str = ""
    last_event_at: str = ""
    overlaps: bool = False
    losses: tuple[dict[str, Any], ...] = ()

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """:raises StagingError: when the text is no manifest of a version this code reads."""
        value = _versioned(text, where)
        try:
            return cls(
                **{
                    **value,
                    "parts": tuple(Part.from_json(part) for part in value["parts"]),
                    "schemas": tuple(value["schemas"]),
                    "losses": tuple(value["losses"]),
                    "run": Run(**value["run"]),
                }
            )
        except (KeyError, TypeError) as error:
            raise StagingError(f"{where} is not a manifest: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What the Spark job says it landed; it counts only when rows and quarantined add up to the manifest's events.

    :param tables: rows landed, by table path or name.
    :param writer: which job wrote it.
    """

    batch_id: str
    events: int
    tables: dict[str, int]
    quarantined: int
    written_at: str
    writer: str = ""
    application_id: str = ""

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str, where: str) -> Receipt:
        """:raises StagingError: when the text is no receipt of a version this code reads."""
        value = _versioned(text, where)
        try:
            return cls(**value)
        except TypeError as error:
            raise StagingError(f"{where} is not a receipt: {error}") from error


def _versioned(text: str, where: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
        version = value.pop("version")
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise StagingError(f"{where} is not readable as JSON with a version: {error}") from error
    if version != VERSION:
        raise StagingError(
            f"{where} has version {version!r}; this release reads version {VERSION}. "
            "Upgrade airflow-provider-sfevents, or let the release that wrote it land it."
        )
    return dict(value)
