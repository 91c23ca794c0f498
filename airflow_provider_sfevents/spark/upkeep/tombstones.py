"""Removal of old tombstones of current state.

A tombstone keeps a late event from bringing a deleted record back. It is removed when no such event
can come: it is older than the time for which identities of events are remembered, and older than
the entity's last full snapshot, and nothing of the entity waits for another one. All times are of
the org's clock.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.changes.transactions import SEEN_FOR
from airflow_provider_sfevents.spark.current_state import state_merges
from airflow_provider_sfevents.spark.current_state.frames import collected, local_rows
from airflow_provider_sfevents.spark.current_state.state_tables import RESYNC, SET_ASIDE
from airflow_provider_sfevents.spark.schema.envelope import GONE
from airflow_provider_sfevents.spark.tables.merging.conflicts import retry_conflicts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from airflow_provider_sfevents.spark.current_state.state_tables import StateTables


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


def remove_old(state: StateTables, *, dry_run: bool) -> int:
    """Remove the tombstones that `removable` names.

    :returns: number of rows, also where they are only counted.
    """
    return retry_conflicts(
        lambda: _removed(state, dry_run=dry_run),
        f"Other jobs kept committing to {state.label(SET_ASIDE)}; no tombstone was removed. "
        "Run the task again.",
    )


def _removed(state: StateTables, *, dry_run: bool) -> int:
    """Decide and remove; both again after a conflict, because an apply may have marked an entity.

    The rows go only while the run that was the last writer before the decision still is.
    """
    standing = state.progress()
    marked = {
        row["entity_name"]
        for row in collected(state.rows(RESYNC, tables.RESYNC_SQL).select("entity_name").distinct())
    }
    buried = state.set_aside(tables.TOMBSTONES)
    latest = collected(buried.selectExpr(f"max({tables.COMMITTED_AT}) AS latest"))[0]["latest"]
    times = (latest, *standing.entities.values())
    newest = max((at for at in times if at is not None), default=None)
    over = removable(standing.entities, marked, newest)
    if not over:
        return 0
    source = local_rows(
        state.spark,
        [{"entity_name": entity, "before": at} for entity, at in over.items()],
        "entity_name string, before timestamp",
    )
    is_old = f"t.{tables.COMMITTED_AT} < s.before"
    number = int(buried.alias("t").join(source.alias("s"), "entity_name").where(is_old).count())
    if number and not dry_run:
        statement = partial(
            state_merges.merge,
            keys=["entity_name"],
            when=is_old,
            within=f"t.event_role = '{tables.TOMBSTONES}' AND {is_old}",
            removes=True,
        )
        gone = source.selectExpr("*", f"true AS {GONE}")
        state.merge(SET_ASIDE, gone, statement, writer=standing.writer)
    return number
