"""Tables of an apply in Spark, with the interface of those in memory (`lake.Lake`).

Histories for one of them also run on the other.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark.changes import serial, tables
from airflow_provider_sfevents.spark.changes.source import admit
from airflow_provider_sfevents.spark.current_state import state_tables
from airflow_provider_sfevents.spark.current_state.apply_events import (
    EntityLayouts,
    Started,
    apply_events,
    deciding,
    take_tables,
)
from airflow_provider_sfevents.spark.current_state.apply_run import ApplyRun
from airflow_provider_sfevents.spark.current_state.current_state_options import CurrentStateOptions
from airflow_provider_sfevents.spark.current_state.event_rows import (
    EVENTS_SQL,
    event_rows,
    events_sql,
    values_column,
)
from airflow_provider_sfevents.spark.current_state.frames import collected, local_rows, together
from airflow_provider_sfevents.spark.current_state.intake.event_intake import Arrived
from airflow_provider_sfevents.spark.current_state.snapshot.apply_snapshot import (
    apply_snapshot_rows,
)
from airflow_provider_sfevents.spark.current_state.state_rows import (
    buried,
    entry_of,
    fields_sql,
    order_of,
    row_sql,
    state_of,
)
from airflow_provider_sfevents.spark.current_state.state_tables import open_state, progress_of
from airflow_provider_sfevents.spark.side_by_side import beside
from tests.harness.step_hooks import on_steps
from tests.histories.lake import Key, Lake
from tests.histories.org import PREFIXES
from tests.histories.wire import GROWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.fields import Layout
    from airflow_provider_sfevents.spark.changes.source import Admission, ChangeBatch


class JobDiedError(Exception):
    """The job was killed at this write."""


def applied(
    run: ApplyRun,
    batch: ChangeBatch,
    admission: Admission,
    arrived: Arrived,
    rows: Any,
    layouts: Mapping[str, Layout],
) -> dict[str, int]:
    """Apply events that have not landed.

    :param rows: the events.
    """

    def read(_: Started) -> EntityLayouts:
        arrived.find([lambda _: rows])
        return EntityLayouts(layouts=layouts)

    start = partial(take_tables, run, batch, admission, arrived)
    with beside(start) as started, deciding(started, read) as decided:
        return apply_events(decided)


@dataclass
class SparkLake(Lake):
    """All tables of one source, in Spark; each look reads them.

    :param spark: None only because the fields of the base class have defaults.
    """

    spark: Any = None
    root: str = ""
    table_format: str = "delta"
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.tables = open_state(
            self.spark, CurrentStateOptions(current_state=self.root, table_format=self.table_format)
        )
        quick = {
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.codegen.factoryMode": "NO_CODEGEN",
            "spark.sql.codegen.wholeStage": "false",
        }
        for name, value in quick.items():
            self.tables.spark.conf.set(name, value)

    @override
    def apply(
        self,
        batch: ChangeBatch,
        arrived: Sequence[Change],
        layouts: Mapping[str, Layout],
        *,
        writes: int | None = None,
    ) -> bool:
        step = _dying(tables.APPLY_ORDER, writes)
        try:
            with (
                on_steps(step),
                ApplyRun(
                    self.tables, deletions=self.deletions, new_entities=self.new_entities
                ) as run,
            ):
                admission = admit(progress_of(run.progress), batch)
                if admission.kind == "rerun":
                    return True
                rows = events_of(self.tables.spark, arrived, layouts)
                # By turns in the driver and in executors: both must give the same result.
                few = 10_000 if batch.batch_number % 2 else -1
                folder = f"{run.folder}/arrived"
                events = Arrived(self.tables, len(arrived), folder, 0, few, few)
                self.counts.update(applied(run, batch, admission, events, rows, layouts))
        except JobDiedError:
            return False
        finally:
            self._look()
        return True

    @override
    def resolve(
        self,
        entity: str,
        records: Mapping[str, Mapping[str, Any]],
        deleted_ids: Iterable[str],
        read_at: datetime,
        layout: Layout,
        *,
        whole: bool,
        writes: int | None = None,
    ) -> dict[str, str]:
        step = _dying(tables.SNAPSHOT_ORDER, writes)
        columns = f"record_id string, read_values struct<{fields_sql(layout)}>"
        given = [{"record_id": one, "read_values": values} for one, values in records.items()]
        try:
            with on_steps(step), ApplyRun(self.tables, deletions=self.deletions) as run:
                rows = local_rows(self.tables.spark, given, columns)
                apply_snapshot_rows(run, entity, rows, deleted_ids, read_at, layout, whole=whole)
        except JobDiedError:
            return {}
        finally:
            self._look()
        return {}

    def _look(self) -> None:
        """Read all tables."""
        state = self.tables
        self.rows = {
            (entity, row["record_id"]): state_of(row, GROWN.columns)
            for entity in PREFIXES
            for row in collected(state.rows(entity, row_sql(GROWN)))
        }
        self.tombstones = {
            _key(row): buried(row) for row in collected(state.set_aside(tables.TOMBSTONES))
        }
        self.resync = {
            _key(row): entry_of(row)
            for row in collected(state.rows(state_tables.RESYNC, tables.RESYNC_SQL))
        }
        self.kept = {
            (*_key(row), order_of(row, "event")): row["event_text"]
            for row in collected(state.set_aside(tables.KEPT))
        }
        self.open_transaction = {
            order_of(row, "event"): serial.from_text(row["event_text"])
            for row in collected(state.set_aside(tables.OPEN_TRANSACTION))
        }
        standing = state.progress()
        self.applied_through, self.entities = standing.text, dict(standing.entities)


def events_of(spark: Any, changes: Sequence[Change], layouts: Mapping[str, Layout]) -> Any:
    """Rows of events as they come from event tables: parts of the header, and columns of values."""
    found = [local_rows(spark, [], EVENTS_SQL)]
    for entity in sorted({one.entity for one in changes}):
        own = [one for one in changes if one.entity == entity]
        rows = [
            {**row, values_column(entity): one.values}
            for row, one in zip(event_rows(own).to_pylist(), own, strict=True)
        ]
        columns = layouts[entity].columns if entity in layouts else ()
        found.append(local_rows(spark, rows, events_sql(entity, columns)))
    return together(found)


def _key(row: Mapping[str, Any]) -> Key:
    return row["entity_name"], row["record_id"]


def _dying(order: Sequence[str], writes: int | None) -> Callable[[str, str], None]:
    """Hook that dies before the commit that follows so many tables."""

    def step(name: str, about: str) -> None:
        if (
            writes is not None
            and name == steps.APPLY_COMMIT
            and order.index(about.split(maxsplit=1)[0]) >= writes
        ):
            raise JobDiedError(about)

    return step
