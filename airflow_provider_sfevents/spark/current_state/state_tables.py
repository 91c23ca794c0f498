"""Current-state tables on Delta or Iceberg: open, make, read and merge them.

A table that does not exist reads as no rows. The first run makes all tables, `applied_through`
last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark.changes import progress_text, tables
from airflow_provider_sfevents.spark.changes.entity import EntityState
from airflow_provider_sfevents.spark.changes.resync_entries import WHOLE_ENTITY
from airflow_provider_sfevents.spark.current_state.frames import collected
from airflow_provider_sfevents.spark.current_state.state_rows import (
    ENTRY_NAMES,
    VALID_FROM,
    VALID_TO,
    entry_of,
    history_sql,
    row_sql,
)
from airflow_provider_sfevents.spark.files import Files
from airflow_provider_sfevents.spark.tables import statements
from airflow_provider_sfevents.spark.tables.opening import open_dialect
from airflow_provider_sfevents.spark.tables.projection import parsed
from airflow_provider_sfevents.spark.tables.table_options import state_options, statistics
from airflow_provider_sfevents.spark.tables.type_records import TypeRecords

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.changes.fields import Layout
    from airflow_provider_sfevents.spark.changes.resync_entries import ResyncEntry
    from airflow_provider_sfevents.spark.changes.source import Progress
    from airflow_provider_sfevents.spark.current_state.current_state_options import (
        CurrentStateOptions,
    )
    from airflow_provider_sfevents.spark.stores.object_files import Stores
    from airflow_provider_sfevents.spark.tables.interface import Dialect

RESYNC, SEEN, SET_ASIDE, PROGRESS = "resync", "seen", "set_aside", "applied_through"
STATE_TABLES = {
    RESYNC: tables.RESYNC_SQL,
    SEEN: tables.SEEN_SQL,
    SET_ASIDE: tables.SET_ASIDE_SQL,
    PROGRESS: tables.PROGRESS_SQL,
}
_PARTITIONS = {SET_ASIDE: "PARTITIONED BY (event_role)"}
_SOURCE = "sfevents_applied"
_ROW_STATISTICS = (tables.RECORD_ID, *tables.ORDER[:2], tables.COMMITTED_AT, tables.READ_AT)
_HISTORY_STATISTICS = (tables.RECORD_ID, VALID_FROM, VALID_TO)
_TIMES = ("CreatedDate", "LastModifiedDate", "SystemModstamp")
"""Fields by which readers ask for what is new."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityResync:
    """Resync entries of an entity.

    :param records: number of its records that have an entry of their own.
    """

    whole: ResyncEntry | None
    records: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The row of `applied_through`.

    :param text: of the progress; empty: nothing was ever applied.
    :param writer: token of the run that may write.
    :param entities: time of the last full snapshot of each entity.
    """

    text: str = ""
    writer: str = ""
    entities: Mapping[str, datetime | None] = field(default_factory=dict)


class StateTables:
    """Current-state tables and those beside them.

    `spark` is a session of their own, in which the format is set up; `root` the URL of the folder
    for what is no table.
    """

    def __init__(self, spark: SparkSession, files: Files, root: str, dialect: Dialect) -> None:
        self.spark = spark
        self.files = files
        self.root = root
        self.types = TypeRecords(files, root)
        self._dialect = dialect
        self._numbers = count()

    def label(self, table: str) -> str:
        return self._dialect.label(table)

    def exists(self, table: str) -> bool:
        return self._dialect.exists(table)

    def rows(self, table: str, columns: str, *, pinned: bool = False) -> DataFrame:
        """Read a table's rows; none if the table does not exist.

        :param columns: as DDL, of a table that is not there.
        :param pinned: those of its present version, whatever is committed meanwhile.
        """
        if not self.exists(table):
            return self.spark.createDataFrame([], columns)
        target = self._dialect.identifier(table)
        if pinned:
            version = self._dialect.version(table)
            if not version:
                return self.spark.createDataFrame([], columns)
            return self.spark.sql(statements.pinned(target, version))
        return self.spark.sql(f"SELECT * FROM {target}")  # noqa: S608 - a quoted name

    def set_aside(self, role: str, *, pinned: bool = False) -> DataFrame:
        """Events of one role, with the columns of that role.

        :param role: one of `tables.ROLES`; `pinned` as of `rows`.
        """
        names = [column.split()[0] for column in tables.ROLES[role].split(", ")]
        rows = self.rows(SET_ASIDE, tables.SET_ASIDE_SQL, pinned=pinned)
        return rows.where(f"event_role = '{role}'").select(*names)

    def make_state_tables(self) -> None:
        if not self.exists(PROGRESS):
            for table, columns in STATE_TABLES.items():
                self.make(table, columns)

    def make_entity(self, entity: str, layout: Layout, *, history: bool) -> None:
        """Make an entity's tables, or add the columns that they lack.

        :raises ConfigurationError: there is a history that would not be kept any more.
        """
        if not history and self.exists(history_name(entity)):
            raise ConfigurationError(
                f"{self.label(history_name(entity))} is the history of {entity}, and this job was "
                "told to keep none: from now on it would lack "
                "what happens. Give history=True (--history) to every apply and snapshot; or "
                "rename or drop that table, which ends it."
            )
        own = layout.columns
        times = [one.name for one in own if one.name in _TIMES and one.type.kind == "timestamp"]
        self.make(entity, row_sql(layout), [*_ROW_STATISTICS, *times])
        if history:
            spans = [*_HISTORY_STATISTICS, *times]
            self.make(history_name(entity), history_sql(layout), spans)

    def make(self, table: str, columns: str, with_statistics: Collection[str] = ()) -> None:
        """Make a table, or add the columns that it lacks.

        :param with_statistics: as of `table_options.statistics`; empty: the format's default.
        """
        target, using = self._dialect.identifier(table), self._dialect.using
        wanted = parsed(columns)
        if not self.exists(table):
            layout = _PARTITIONS.get(table, self._dialect.layout)
            properties = {
                name: value
                for name, value in self._dialect.properties.items()
                # Those of a landing's own columns mean nothing here, and Iceberg refuses them.
                if name.rpartition(".column.")[2] in (name, *wanted.names)
            } | statistics(using, with_statistics)
            self.spark.sql(statements.create(target, using, wanted, layout, properties))
        self._dialect.check_table(table)
        if lacking := statements.add_columns(target, self.rows(table, columns).schema, wanted):
            self.spark.sql(lacking)

    def merge(
        self,
        table: str,
        source: DataFrame,
        statement: Callable[[str, str], str],
        *,
        writer: str,
    ) -> int | None:
        """Commit a MERGE.

        :param statement: makes the MERGE of the table's name in SQL and the source.
        :param writer: the token with which the source has its rows; after another run has taken the
            tables it has none. Empty: it always has.
        :returns: number of rows that changed; None where the format does not tell.
        """
        said = statement(self._dialect.identifier(table), self._source(source, writer))
        answer = self.spark.sql(said)
        if "num_affected_rows" not in answer.columns:
            return None
        row = answer.first()
        return None if row is None else int(row["num_affected_rows"])

    def append(self, table: str, rows: DataFrame, *, writer: str) -> None:
        """Commit new rows, when it is known that they are not there; `writer` as of `merge`."""
        names = ", ".join(rows.columns)
        target, source = self._dialect.identifier(table), self._source(rows, writer)
        said = f"INSERT INTO {target} ({names}) SELECT {names} FROM {source}"  # noqa: S608
        self.spark.sql(said)

    def _source(self, rows: DataFrame, writer: str) -> str:
        """Make the SQL of a MERGE's source rows.

        It names the table of the token itself, because Spark plans no MERGE with a view that reads
        an Iceberg table.
        """
        source = f"{_SOURCE}_{next(self._numbers)}"  # two commits may be made at once
        rows.createOrReplaceTempView(source)
        if not writer:
            return source
        progress = self._dialect.identifier(PROGRESS)
        mine = f"w.{tables.WRITER} = {statements.text(writer)}"
        return f"(SELECT v.* FROM {source} v LEFT SEMI JOIN {progress} w ON {mine})"  # noqa: S608

    def progress(self) -> Standing:
        """Read `applied_through`.

        :raises StagingError: there are several rows.
        """
        found = collected(self.rows(PROGRESS, tables.PROGRESS_SQL))
        if len(found) > 1:
            raise StagingError(
                f"{self.label(PROGRESS)} has {len(found)} rows instead of one: another program "
                "has changed it. Restore the table to its version before "
                "that."
            )
        row = found[0] if found else {}
        return Standing(
            text=row.get(tables.APPLIED_THROUGH) or "",
            writer=row.get(tables.WRITER) or "",
            entities={
                one["entity_name"]: one[tables.READ_AT] for one in row.get(tables.ENTITIES) or ()
            },
        )

    def version(self, table: str) -> str:
        """Version of a table, new after each commit; empty if the table does not exist."""
        return self._dialect.version(table) if self.exists(table) else ""

    def entries(self) -> dict[str, EntityResync]:
        """Read the resync entries, by entity."""
        from pyspark.sql import functions as F  # noqa: N812 - the usual name

        is_whole = f"{tables.RECORD_ID} = '{WHOLE_ENTITY}'"
        whole = f"CASE WHEN {is_whole} THEN struct({', '.join(ENTRY_NAMES)}) END"
        found = (
            self.rows(RESYNC, tables.RESYNC_SQL)
            .groupBy("entity_name")
            .agg(
                F.expr(f"any_value({whole}, true)").alias("whole"),
                F.expr(f"count_if(NOT {is_whole})").alias("records"),
            )
        )
        return {
            row["entity_name"]: EntityResync(
                whole=entry_of(row["whole"]) if row["whole"] is not None else None,
                records=row["records"],
            )
            for row in collected(found)
        }


def entity_states(
    entities: Mapping[str, datetime | None], entries: Mapping[str, EntityResync]
) -> dict[str, EntityState]:
    """Read the states of all entities of a source.

    :param entities: times of their full snapshots. A run that died may have marked another entity.
    """
    whole = {entity: one.whole for entity, one in entries.items() if one.whole is not None}
    return {
        entity: EntityState(entity=entity, entry=whole.get(entity), read_at=entities.get(entity))
        for entity in {**entities, **whole}
    }


def progress_of(text: str) -> Progress | None:
    return progress_text.from_text(text) if text else None


def history_name(entity: str) -> str:
    return f"{entity}_history"


def open_state(
    spark: SparkSession, options: CurrentStateOptions, stores: Stores | None = None
) -> StateTables:
    """Open the tables that a job's options name; only a missing namespace is made.

    :param stores: as of `Files`.
    :raises ConfigurationError: they cannot be; the message says what to change.
    """
    files = Files(spark, stores)
    session, dialect, root = open_dialect(
        spark,
        files,
        options.current_state,
        options.table_format,
        state_options(options.table_format, options.row_changes),
        landing_folder=options.landing_folder,
    )
    return StateTables(session, files, root, dialect)
