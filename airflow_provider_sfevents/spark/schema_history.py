"""Every schema that events were written with, as rows of the table `_schemas` beside the event tables. No I/O, no Spark.

A schema id stands for the fields' names and their types in Avro. What Avro does not tell, a date from an instant, is not part of it:
two orgs, or one org before and after a change, may have two schemas of one id. So the text counts, not the id.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_provider_sfevents.spark.plan import BatchPlan
    from airflow_provider_sfevents.staging.manifest import Manifest

TABLE = "_schemas"
SQL = (
    "org_id string, event_type string, schema_id string, schema_json string, event_topic string, batch_id string, "
    "batch_sequence bigint, first_seen_at timestamp"
)
KEY = ("org_id", "schema_id", "schema_json")

Key = tuple[str, str, str]
"""What makes two rows one: the values of `KEY`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenSchema:
    """A row of the table.

    :param event_type: name of the schema's record.
    :param schema_json: as the service sent it.
    :param event_topic: the topic it was first seen on.
    :param batch_id: of the first batch with events written with it, and that batch's sequence.
    :param first_seen_at: when that batch was staged, UTC.
    """

    org_id: str
    event_type: str
    schema_id: str
    schema_json: str
    event_topic: str
    batch_id: str
    batch_sequence: int
    first_seen_at: datetime

    @property
    def key(self) -> Key:
        return self.org_id, self.schema_id, self.schema_json

    def values(self) -> tuple[object, ...]:
        """In the order of `SQL`."""
        return tuple(getattr(self, field.name) for field in fields(self))


def new_schemas(
    manifest: Manifest, plan: BatchPlan, known: Collection[Key]
) -> tuple[SeenSchema, ...]:
    """Rows that a batch adds: its schemas that no batch had before, those of quarantined events too, by id.

    The same batch gives the same rows whenever it lands, as long as `known` is the same: so a landing replaces its batch's rows, or
    adds those whose key is not there.

    :param known: keys of the rows that other batches brought.
    """
    staged_at = datetime.fromisoformat(manifest.created_at)
    rows = (
        SeenSchema(
            org_id=manifest.org_id,
            event_type=plan.names[schema_id],
            schema_id=schema_id,
            schema_json=text,
            event_topic=manifest.topic,
            batch_id=manifest.batch_id,
            batch_sequence=manifest.sequence,
            first_seen_at=staged_at,
        )
        for schema_id, text in sorted(plan.schemas.items())
    )
    return tuple(row for row in rows if row.key not in known)
