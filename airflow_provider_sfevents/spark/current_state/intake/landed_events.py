"""Read the events of a batch as they land.

1. Few events come from the very files that are committed to the event tables and the quarantine,
   of which the driver has the contents. Otherwise rows of the event tables come first, then those
   of the quarantine, each of one version of its table.
2. Events that landing left out as duplicates are decoded from the staged files: another consumer
   may have landed them, and then no batch of these tables has brought them yet.
3. A concurrent landing of the same batch may move an event between two reads. An event that was
   already found is skipped, so each event counts once.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.current_state.event_rows import (
    EVENTS_SQL,
    QUARANTINED_SQL,
    decoded_events,
    entity_of,
    event_columns,
    events_sql,
    undecodable_events,
)
from airflow_provider_sfevents.spark.current_state.frames import (
    acted_here,
    mapped,
    read_here,
    together,
)
from airflow_provider_sfevents.spark.current_state.value_translation import Translation, translation
from airflow_provider_sfevents.spark.landing.staged_batch import events_by_schema
from airflow_provider_sfevents.spark.schema.event_columns import evolved
from airflow_provider_sfevents.spark.side_by_side import side_by_side
from airflow_provider_sfevents.spark.tables import file_moves
from airflow_provider_sfevents.spark.tables.merging.merged_tables import MergedTables

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.changes.order import EventOrder
    from airflow_provider_sfevents.spark.current_state.frames import Act
    from airflow_provider_sfevents.spark.current_state.state_tables import StateTables
    from airflow_provider_sfevents.spark.landing.landed_batch import LandedBatch
    from airflow_provider_sfevents.spark.schema.event_columns import EventType
    from airflow_provider_sfevents.spark.schema.evolution import Evolution, OnTypeChange

_IN_A_TASK = 50_000
"""Number of events that one task converts."""


def entity_columns(
    state: StateTables, landed: LandedBatch, on_type_change: OnTypeChange
) -> tuple[dict[str, Evolution], dict[str, Translation]]:
    """Decide the columns of the entities' tables from the schemas of a batch.

    :returns: the columns, by entity; and the translation from each event type's table to its
        entity's, by event type.
    :raises ConfigurationError: the batch holds other events than change events.
    """
    plan = landed.staged.plan
    for name in plan.evolutions:
        if not entity_of(name):
            raise ConfigurationError(
                f"{landed.staged.url} holds events of {name}, which are no change events: they "
                "tell nothing about records. Land them "
                "without current_state, or take them out of the channel."
            )
    found = {
        name: evolved(
            state.types(entity_of(name)),
            one.schemas,
            partial(events_by_schema, state.spark, landed.staged),
            on_type_change,
        )
        for name, one in plan.evolutions.items()
    }
    return (
        {entity_of(name): one for name, one in found.items()},
        {name: translation(plan.evolutions[name], one) for name, one in found.items()},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LandedEvents:
    """Reads a batch's events from the landing's files or tables, and from staged files.

    :param place: right before the batch's first event.
    :param ways: by `entity_columns`.
    :param few: the driver converts rows to events, for which no executor's Python is started.
    """

    spark: SparkSession
    landed: LandedBatch
    place: EventOrder
    ways: Mapping[str, Translation]
    few: bool

    def sources(self) -> tuple[Callable[[frozenset[int]], DataFrame], ...]:
        """The sources of the events, the usual one first (`event_intake.Arrived`)."""
        left_out = (self._left_out, self._left_out_undecodable)
        if self.landed.contents:
            return self._held, *left_out
        return self._landed, self._quarantined, *left_out

    def _held(self, known: frozenset[int]) -> DataFrame:
        types = self.landed.staged.plan.types
        asked = [(kind.name, event_columns(kind.columns), self._decoded(kind)) for kind in types]
        asked.append((file_moves.QUARANTINE, QUARANTINED_SQL, self._undecodable(known)))
        found = [
            acted_here(self.spark, read_here(contents, given), act, columns)
            for table, given, (act, columns) in asked
            if (contents := self._contents_of(table))
        ]
        return together(found)

    def _contents_of(self, table: str) -> list[bytes]:
        return [
            one for path, one in self.landed.contents.items() if file_moves.table_of(path) == table
        ]

    def _landed(self, _known: frozenset[int]) -> DataFrame:
        types = self.landed.staged.plan.types
        # A type's rows are in one file or two, each of which one task would read.
        tasks = self.landed.staged.manifest.events // (_IN_A_TASK * max(len(types), 1))

        def rows(kind: EventType) -> DataFrame:
            found = self._rows(kind.name, event_columns(kind.columns))
            return found.repartition(tasks) if tasks > 1 else found

        return self._together(rows)

    def _quarantined(self, known: frozenset[int]) -> DataFrame:
        rows = self._rows(file_moves.QUARANTINE, QUARANTINED_SQL)
        return self._mapped(rows, *self._undecodable(known))

    def _left_out(self, known: frozenset[int]) -> DataFrame:
        staged = partial(self.landed.staged.table_rows, self.spark, left_out=known)
        return self._together(lambda kind: staged(kind.name))

    def _left_out_undecodable(self, known: frozenset[int]) -> DataFrame:
        staged = self.landed.staged
        rows = staged.table_rows(self.spark, file_moves.QUARANTINE, left_out=known)
        return self._mapped(rows, *self._undecodable(known))

    def _rows(self, table: str, columns: str) -> DataFrame:
        tables, dates = self.landed.tables, self.landed.dates.get(table, ())
        assert isinstance(tables, MergedTables)  # noqa: S101 - `ApplyOptions.check` refuses others
        return tables.of_batch(table, self.landed.staged.manifest.batch_id, dates, columns)

    def _decoded(self, kind: EventType) -> tuple[Act, str]:
        """Return the conversion of an event type's rows, and the columns of the result."""
        entity = entity_of(kind.name)
        way = self.ways.get(kind.name, Translation())
        act = partial(decoded_events, self.place, entity, way)
        return act, events_sql(entity, way.columns)

    def _undecodable(self, known: frozenset[int]) -> tuple[Act, str]:
        schemas = dict(self.landed.staged.plan.schemas)
        return partial(undecodable_events, self.place, schemas, known), EVENTS_SQL

    def _mapped(self, rows: DataFrame, act: Act, columns: str) -> DataFrame:
        if self.few:
            return acted_here(self.spark, rows.toArrow(), act, columns)
        return mapped(rows, act, columns)

    def _together(self, rows: Callable[[EventType], DataFrame]) -> DataFrame:
        """Convert the rows of all event types to events."""
        found = side_by_side(
            lambda kind: self._mapped(rows(kind), *self._decoded(kind)),
            self.landed.staged.plan.types,
        )
        # A union with rows of another session would be planned with that session's settings.
        return together(found or [self.spark.createDataFrame([], EVENTS_SQL)])
