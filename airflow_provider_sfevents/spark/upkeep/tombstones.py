"""Removal of old tombstones of current state.

A tombstone keeps a late event from bringing a deleted record back. It is removed when no such event
can come: it is older than the time for which identities of events are remembered, and older than
the entity's last full snapshot, and nothing of the entity waits for another one. All times are of
the org's clock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.changes.tables import COMMITTED_AT, READ_AT
from airflow_provider_sfevents.spark.changes.transactions import SEEN_FOR
from airflow_provider_sfevents.spark.current_state.frames import collected
from airflow_provider_sfevents.spark.current_state.state_tables import ENTITIES, RESYNC, TOMBSTONES
from airflow_provider_sfevents.spark.tables.merging.conflicts import retry_conflicts
from airflow_provider_sfevents.spark.tables.statements import text

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyspark.sql import SparkSession

    from airflow_provider_sfevents.spark.tables.delta import DeltaByPath
    from airflow_provider_sfevents.spark.tables.named import Named

TABLE = TOMBSTONES


def removable(
    read: Mapping[str, datetime | None], marked: set[str], newest: datetime | None
) -> dict[str, datetime]:
    """For each entity, the commit time before which its tombstones can go.

    :param read: when each entity was last read in full; None: never.
    :param marked: entities with a row in `resync`, of their own or of a record.
    :param newest: the latest time of the org's clock that the tables know; None: none.
    """
    if newest is None:
        return {}
    old = newest - SEEN_FOR
    return {
        entity: min(at, old)
        for entity, at in sorted(read.items())
        if at is not None and entity not in marked
    }


def remove_old(session: SparkSession, tables: DeltaByPath | Named, *, dry_run: bool) -> int:
    """Remove what `removable` says.

    :returns: number of rows, also where they are only counted.
    """
    return retry_conflicts(
        lambda: _removed(session, tables, dry_run=dry_run),
        f"Other jobs kept committing to {tables.label(TOMBSTONES)}; nothing of it was "
        f"removed. Run the task again.",
    )


def _removed(session: SparkSession, tables: DeltaByPath | Named, *, dry_run: bool) -> int:
    """Decide and delete; after a conflict both are done anew, because an apply may have marked an entity."""
    known = {name: tables.identifier(name) for name in (TOMBSTONES, ENTITIES, RESYNC)}
    read = {
        row["entity_name"]: row[READ_AT]
        for row in collected(session.table(known[ENTITIES]).select("entity_name", READ_AT))
    }
    marked = {
        row["entity_name"]
        for row in collected(session.table(known[RESYNC]).select("entity_name").distinct())
    }
    buried = session.table(known[TOMBSTONES])
    latest = collected(buried.selectExpr(f"max({COMMITTED_AT}) AS latest"))[0]["latest"]
    newest = max((at for at in (latest, *read.values()) if at is not None), default=None)
    conditions = [
        f"entity_name = {text(entity)} AND {COMMITTED_AT} < TIMESTAMP'{at.isoformat()}'"
        for entity, at in removable(read, marked, newest).items()
    ]
    if not conditions:
        return 0
    where = " OR ".join(f"({one})" for one in conditions)
    number = int(buried.where(where).count())
    if number and not dry_run:
        session.sql(f"DELETE FROM {known[TOMBSTONES]} WHERE {where}").collect()  # noqa: S608
    return number
