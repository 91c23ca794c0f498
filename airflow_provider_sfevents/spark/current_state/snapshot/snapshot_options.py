"""Options of an entity snapshot for a current-state table. No I/O, no Spark."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.current_state.current_state_options import CurrentStateOptions
from airflow_provider_sfevents.spark.landing.landing_options import DECIMALS
from airflow_provider_sfevents.spark.options import option, require_known
from airflow_provider_sfevents.spark.schema.decimals import read_decimals

if TYPE_CHECKING:
    from collections.abc import Mapping

RECORD_FORMATS = ("json", "csv", "parquet")


def time_of(text: str) -> datetime:
    """Read a time with a zone.

    :raises ConfigurationError: the text is not one.
    """
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(
            f"read_at={text!r} is no time; give ISO-8601, such as 2026-11-01T06:30:00Z."
        ) from error
    if found.tzinfo is None:
        raise ConfigurationError(
            f"read_at={text!r} has no time zone; give it, such as 2026-11-01T06:30:00Z."
        )
    return found


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotOptions(CurrentStateOptions):
    """An entity, the files with its records, and the current-state tables that they correct."""

    entity: str = field(metadata=option("API name of the object", "NAME"))
    records: str = field(metadata=option("file or folder of full records", "URL"))
    records_format: str = field(
        metadata=option(
            "json (REST: an object a line), csv (Bulk: with a header) or parquet", "FORMAT"
        )
    )
    records_read: int = field(
        default=0,
        metadata=option(
            "number of records that were read; if the files have fewer, nothing is changed",
            "N",
            read=int,
        ),
    )
    read_at: datetime = field(
        metadata=option(
            "time at which the read began, by the org's clock; ISO-8601 with a zone",
            "TIME",
            read=time_of,
            write=datetime.isoformat,
        )
    )
    deleted_ids: str = field(
        default="",
        metadata=option("file with the ids of records that do not exist, one a line", "URL"),
    )
    partial: bool = field(
        default=False,
        metadata=option("only some records were read: all others stay as they are"),
    )
    event_schema: str = field(
        default="",
        metadata=option(
            "file with the Avro schema that the entity's change events have now; needed if none "
            "has been applied, and if a field has changed in kind",
            "URL",
        ),
    )
    decimals: Mapping[str, str] = field(default_factory=dict, metadata=DECIMALS)
    lacking: tuple[str, ...] = field(
        default=(),
        metadata=option(
            "fields that the table has and the org no longer has; they become null",
            "FIELD,...",
            read=_names,
            write=",".join,
        ),
    )
    report: str = field(default="", metadata=option("file for the counts, as JSON", "URL"))

    # Not marked as an override: some Spark clusters do not have typing_extensions.
    def check(self) -> None:  # type: ignore[explicit-override]
        CurrentStateOptions.check(self)
        require_known("records_format", self.records_format, RECORD_FORMATS)
        read_decimals(self.decimals)
