"""Records beside a batch's files: parts, manifest, receipt. Plain JSON; Spark reads them too."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from airflow_provider_sfevents.exceptions import StagingError

VERSION = 1

PayloadFormat = Literal["avro", "json"]
"""Form of staged payloads: Avro of the Pub/Sub API, or messages of the Streaming API."""

AVRO: PayloadFormat = "avro"
JSON: PayloadFormat = "json"

_SCALARS = ("str", "int", "bool")

CHANGE_TYPE = "change_type"
"""Field of a PushTopic's events, beside its query's: created, updated, deleted or undeleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One closed Parquet file; complete in itself, so that a batch can continue after it.

    :param path: below the batch's folder.
    :param start: replay point that its events follow strictly: `earliest`, `latest` or a replay id
        in hex.
    :param end: replay id of its last event, hex.
    :param first_ordinal: ordinal of its first event in the batch.
    :param events: number of events.
    :param bytes: sum of its payloads' sizes.
    :param sha256: over the rows, as `staging.parts.part_checksum` defines it; hex.
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
    """Task instance of Airflow; empty outside of Airflow. Times in ISO-8601, UTC.

    :param run_after: the time after which the scheduler may start the run. Runs are ordered by it,
        also those without a logical date.
    """

    dag: str = ""
    run: str = ""
    task: str = ""
    map_index: int = -1
    try_number: int = 0
    logical_date: str = ""
    data_interval_start: str = ""
    data_interval_end: str = ""
    run_after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossWindow:
    """Span in which events may have left the bus unread: always recorded, never silent.

    :param after: the replay id (hex) after which reading should have continued.
    :param after_event_at: creation time of the last event before the window, if known; ISO-8601,
        UTC.
    :param start: the replay point chosen instead: `earliest`, `latest` or a replay id in hex.
    :param pinned: with `start="latest"`: the replay id (hex) that `latest` stood for; the batch
        begins strictly after it.
    :param first_event_at: creation time of the first event read after the window, if known.
    :param at: when the window was recorded, by that worker's clock; for people only.
    :param why: the bus's own words, or the command that moved the position.
    """

    after: str
    start: str
    at: str
    why: str
    after_event_at: str = ""
    first_event_at: str = ""
    pinned: str = ""

    @property
    def resumes_at(self) -> str:
        """Replay point of the batch after the window, in text form."""
        return self.pinned or self.start


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A staged batch.

    :param batch_number: the batch number.
    :param position_start: the replay point of the position that it was fetched for, as text.
    :param start: replay point that the first event follows: `position_start`, or the replay point
        after a loss window. One exception: an epoch that began at `latest` with an event includes
        that event.
    :param end: replay id of the last event, hex.
    :param bytes: sum of the payloads' sizes.
    :param ended_by: `max_events`, `max_bytes`, `max_seconds`, `idle_seconds`, `until`, `error`, or
        `lost`: the stream of a managed subscription.
    :param short_silence: `idle_seconds` ended an announced batch after a shorter silence, which
        does not show that no event was pending.
    :param parts: the files, each starting at the end of the one before.
    :param created_at: ISO-8601, UTC.
    :param begun_at: time at which the fetch began that wrote the manifest; ISO-8601, UTC.
    :param error: with `ended_by="error"`: the cause, as a message for the user.
    :param overlaps: the bus may deliver events again that have landed; landing must compare
        identities.
    :param losses: loss windows this batch begins with.
    :param extra_deliveries: by cause (`staging.extra_deliveries`); each counts against the org's
        allowance.
    :param payload_format: `avro`, or `json`: whole messages of the Streaming API.
    """

    org_id: str
    instance_url: str
    topic: str
    consumer: str
    epoch: str
    batch_number: int
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
    begun_at: str = ""
    short_silence: bool = False
    run: Run = field(default_factory=Run)
    error: str = ""
    last_event_at: str = ""
    overlaps: bool = False
    losses: tuple[LossWindow, ...] = ()
    extra_deliveries: dict[str, int] = field(default_factory=dict)
    payload_format: PayloadFormat = AVRO

    @property
    def is_drained(self) -> bool:
        """True if its end shows that it has every event until the beginning of its fetch."""
        return self.ended_by == "idle_seconds" and not self.short_silence

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str, where: str) -> Manifest:
        """Parse a manifest.

        :param where: the file, for messages.
        :raises StagingError: the text is no manifest of a version that this code reads.
        """
        value = _versioned(
            text,
            where,
            "the next run stages the batch again, from the complete files beside it, unless the "
            "position is beyond it",
        )
        try:
            manifest = cls(
                **{
                    **value,
                    "parts": tuple(Part.from_json(part) for part in value["parts"]),
                    "schemas": tuple(value["schemas"]),
                    "losses": tuple(LossWindow(**one) for one in value["losses"]),
                    "run": Run(**value["run"]),
                }
            )
        except (KeyError, TypeError) as error:
            raise StagingError(f"{where} is not a manifest: {error}") from error
        _check_types(manifest, where)
        return manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Proof of the Spark job that a batch has landed.

    It counts only if rows, quarantined events and duplicates add up to the manifest's events.

    :param tables: rows landed, by table path or name.
    :param quarantined: events in quarantine.
    :param written_at: ISO-8601, UTC.
    :param writer: the job that wrote it.
    :param duplicates: events left out because an event of the same identity has landed already, or
        comes earlier in the batch.
    :param end: last replay id of what landed, hex; empty: as in the manifest. If it differs from
        the manifest's, another form of the batch, fetched on a machine with another staging area,
        landed first, and that form counts.
    :param applied: by `spark/apply.py`: events by their outcome in the current-state tables:
        `applied`, `kept`, `open_events`, `repeated`, `unapplied`, `resync_records`,
        `resync_entities`. None: the batch was landed, and not applied.
    :param drift: changes of the tables' columns: a new table or column, a field that changed its
        kind (`spark.drift.Drift.to_dict`).
    :param locations: URLs of the tables that `tables` names by a catalog, as far as they are known.
    """

    batch_id: str
    events: int
    tables: dict[str, int]
    quarantined: int
    written_at: str
    writer: str = ""
    application_id: str = ""
    duplicates: int = 0
    end: str = ""
    applied: dict[str, int] | None = None
    drift: list[dict[str, Any]] = field(default_factory=list)
    locations: dict[str, str] = field(default_factory=dict)

    @property
    def open_events(self) -> int:
        """Number of events that wait for the rest of their transaction."""
        return (self.applied or {}).get("open_events", 0)

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, text: str, where: str) -> Receipt:
        """Parse a receipt.

        :param where: the file, for messages.
        :raises StagingError: the text is no receipt of a version that this code reads.
        """
        value = _versioned(
            text,
            where,
            "the next run lands the batch again, which replaces its rows, unless the position is "
            "beyond it",
        )
        try:
            receipt = cls(**value)
        except TypeError as error:
            raise StagingError(f"{where} is not a receipt: {error}") from error
        _check_types(receipt, where)
        return receipt


def _versioned(text: str, where: str, otherwise: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
        version = value.pop("version")
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise StagingError(
            f"{where} is not readable as JSON with a version: {error}. Restore it; or remove "
            f"{where}: {otherwise}."
        ) from error
    if version != VERSION:
        raise StagingError(
            f"{where} has version {version!r}; this release reads version {VERSION}. "
            "Upgrade airflow-provider-sfevents, or let the release that wrote it land it."
        )
    return dict(value)


def _check_types(read: Manifest | Receipt, where: str) -> None:
    """Check texts and numbers, which a person may have edited.

    :raises StagingError: one is of another type.
    """
    for one in fields(read):
        given, kind = getattr(read, one.name), str(one.type)
        if kind == "dict[str, int]":
            is_right = type(given) is dict and {type(n) for n in given.values()} <= {int}
        else:
            is_right = kind not in _SCALARS or type(given).__name__ == kind
        if not is_right:
            raise StagingError(
                f"{where} was edited: `{one.name}` is {str(given)[:80]!r}, not of type {kind}. "
                "Write it as it was."
            )
