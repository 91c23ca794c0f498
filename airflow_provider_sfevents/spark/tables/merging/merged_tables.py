"""Tables of Delta and Iceberg: a batch lands in a table by one statement, which is one commit.

Everything is written as Parquet into the attempt's folder first, counted and compared there, as for
Parquet tables; each table's statement then reads its rows from that folder. This folder fences
attempts at other forms of the batch (`fence`): a statement that has not read it yet fails once the
folder is removed. One that has read it, and commits after another landing of the batch, meets a
conflict, and the attempt checks again. One case is stopped by neither: an older form commits rows
to a table in which the newer form has none. Such rows are searched for after the last commit, by
both landings.

Several tables are several commits. The ledger's row comes after all of them (`merged_ledger`), and
only when each table holds as many rows of the batch as it should. Where no commit gets lost (a
store that renames in one step, a catalog that makes the commit), and the batch lands for the first
time, its commits are enough: Delta's statement then adds all rows, or fails because one is there.
Otherwise they are counted in the table, since a commit may get lost on a store without atomic
renames, and other signs of it do not last.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError, NotLandedError, StagingError
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.side_by_side import side_by_side
from airflow_provider_sfevents.spark.tables import file_moves, statements
from airflow_provider_sfevents.spark.tables.merging import merge_statements
from airflow_provider_sfevents.spark.tables.merging.conflicts import T, has_added, retry_conflicts
from airflow_provider_sfevents.spark.tables.merging.merged_ledger import MergedLedger
from airflow_provider_sfevents.spark.tables.projection import (
    parquet_files,
    parsed,
    selected,
    taken,
    view_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_provider_sfevents.spark.files import Files
    from airflow_provider_sfevents.spark.tables.interface import (
        Attempt,
        Dialect,
        KnownRows,
        Standing,
    )
    from airflow_provider_sfevents.spark.tables.ledger import LedgerRow

logger = logging.getLogger(__name__)

_NEEDED = (envelope.BATCH_ID, envelope.ORDINAL, envelope.EVENT_DATE)


class MergedTables:
    """Tables of a format with commits.

    :param spark: a session of the landing's own, in which the format is set up.
    :param root: URL of the folder for attempts and types.
    """

    def __init__(self, spark: SparkSession, files: Files, root: str, dialect: Dialect) -> None:
        self.spark = spark
        self._files = files
        self._dialect = dialect
        self.root = root
        self._seen: dict[str, tuple[str, StructType]] = {}
        # Schemas of tables that were made ready, for the first try of their commits.
        self._ready: dict[str, StructType] = {}
        self.label = dialect.label
        self.url = dialect.url
        self.ledger = MergedLedger(spark, dialect)

    def schema(self, table: str) -> StructType | None:
        return self._rows(table).schema if self._dialect.exists(table) else None

    def standing(self, table: str, dates: Iterable[str], batch_id: str) -> Standing:  # noqa: ARG002
        """The table's version, for any dates.

        Empty for a table that no landing made, since such a table is refused before it gets a row.
        """
        if table not in self._seen and not self._dialect.exists(table):
            return {}
        version = self._dialect.version(table)
        if table not in self._seen or self._seen[table][0] != version:
            self._seen[table] = version, self._rows(table).schema
        ours = set(_NEEDED).issubset(self._seen[table][1].names)
        return {table: frozenset({version})} if ours else {}

    def known(self, tables: Mapping[str, KnownRows], columns: str, name: str) -> DataFrame:
        """Read the tables as they are now: newer rows may be there by now, and are welcome."""
        selects = []
        for table, rows in tables.items():
            found = ", ".join(_as_wanted(self._seen[table][1], columns))
            target = self._dialect.identifier(table)
            on_dates = merge_statements.on_dates(set(rows.dates))
            tagged = f"{found}, {statements.text(table)} AS {name}"
            selects.append(f"SELECT {tagged} FROM {target} WHERE {on_dates}")  # noqa: S608 - all is quoted
        return self.spark.sql(" UNION ALL ".join(selects))

    def of_batch(
        self, table: str, batch_id: str, dates: Collection[str], columns: str
    ) -> DataFrame:
        """Read a batch's rows in one version of a table; repeated reads return the same rows.

        :param dates: ISO-8601, those of the batch's rows in this table.
        :param columns: wanted, as DDL; those that the table does not have are null.
        """
        version = self._dialect.version(table) if dates and self._dialect.exists(table) else ""
        if not version:
            return self.spark.createDataFrame([], columns)
        rows = self.spark.sql(statements.pinned(self._dialect.identifier(table), version))
        own = rows.where(merge_statements.of_batch(batch_id, dates))
        return selected(own, _as_wanted(rows.schema, columns))

    def files(self, written: Iterable[str], batch_id: str) -> tuple[str, ...]:  # noqa: ARG002
        return ()

    def publish(self, attempt: Attempt) -> None:
        landed = attempt.landed
        dates = landed.dates
        # All tables before the first commit: a landing that may not make them finds out while
        # nothing can be seen.
        side_by_side(
            lambda table: self._again(partial(self._make_ready, table, attempt.schemas[table])),
            dates,
        )
        self._again(self.ledger.make)
        told = side_by_side(lambda table: self._bring_in(table, dates[table], attempt), dates)
        uncounted = [table for table, is_counted in zip(dates, told, strict=True) if not is_counted]
        if attempt.left_overs:
            # Many catalogs give names back in lower case.
            landed_in = {table.casefold() for table in dates}
            for table in self._dialect.names():
                if table.casefold() not in landed_in:
                    self._again(partial(self._remove, table, attempt))
        self._check(attempt, uncounted)
        steps.reached(steps.LANDING_LANDED, landed.batch_id)
        attempt.rows_landed()
        self._again(partial(self._say_landed, attempt))

    def _say_landed(self, attempt: Attempt) -> None:
        """Write the ledger's row and read it back: without atomic renames a commit may be lost."""
        attempt.fence()
        landed = attempt.landed
        is_kept = attempt.is_new and self._dialect.keeps_commits
        if is_kept and self._dialect.inserts_conflict and self.ledger.add(landed):
            return
        self.ledger.write(landed)
        if is_kept:
            return
        row = self.ledger.view(landed.batch_id).row
        if row is None or row.staged_at != landed.staged_at:
            raise StagingError(
                f"Batch {landed.batch_id} is in its tables, but its row of "
                f"{self.ledger.label} is not: another commit took its place. "
                "It does not count as landed. Run the task again."
            )

    def ensure_holds(self, landed: LedgerRow) -> None:
        expected = {one.name: one.rows for one in landed.tables}
        if wrong := self._differences(landed.batch_id, expected, landed.dates):
            raise NotLandedError(
                f"{self.ledger.label} says that batch {landed.batch_id} has landed in its form of "
                f"{landed.staged_at.isoformat()}, but {wrong}. Another program has changed the "
                f"table or set it back. Delete the batch's row of {self.ledger.label} and run the "
                "task again, which lands the batch anew."
            )

    def read(self, table: str) -> DataFrame:
        if not self._dialect.exists(table):
            there = [name for name in self._dialect.names() if not name.startswith("_")]
            known = ", ".join(there) or "none"
            raise ConfigurationError(f"There is no table {self.label(table)}; there are: {known}.")
        return self._rows(table)

    def _rows(self, table: str) -> DataFrame:
        return self.spark.sql(f"SELECT * FROM {self._dialect.identifier(table)}")  # noqa: S608 - a quoted name

    def _again(self, act: Callable[[], T]) -> T:
        return retry_conflicts(
            act,
            f"Other landings kept committing to the tables below {self.root}; nothing more "
            f"was landed. Run the task again.",
        )

    def _make_ready(self, table: str, wanted: StructType) -> None:
        """Make the table, or add the columns that it lacks."""
        dialect, target = self._dialect, self._dialect.identifier(table)
        if table not in self._seen and not dialect.exists(table):
            self.spark.sql(
                statements.create(target, dialect.using, wanted, dialect.layout, dialect.properties)
            )
        had = self._rows(table).schema
        if missing := [name for name in _NEEDED if name not in had.names]:
            raise ConfigurationError(
                f"The table {self.label(table)} has no column {' and no '.join(missing)}: it was "
                "not made by a landing. Nothing was landed in it; land in another place."
            )
        dialect.check_table(table)
        if lacking := statements.add_columns(target, had, wanted):
            logger.info("%s: %s", self.label(table), lacking)
            self.spark.sql(lacking)
        else:
            self._ready[table] = had

    def _bring_in(self, table: str, dates: Collection[str], attempt: Attempt) -> bool:
        """Commit a table's rows; False if they have to be counted there."""
        is_kept = attempt.is_new and self._dialect.keeps_commits
        adds = is_kept and self._dialect.inserts_conflict
        if adds and self._again(partial(self._add, table, dates, attempt)):
            return True
        self._again(partial(self._merge, table, dates, attempt))
        return is_kept and not adds

    def _add(self, table: str, dates: Collection[str], attempt: Attempt) -> bool:
        """Add the rows of a batch that lands for the first time.

        Return False if the table unexpectedly has rows of it, and nothing was added.
        """
        rows, columns = self._source(table, attempt)
        batch_id = attempt.landed.batch_id
        target = self._dialect.identifier(table)
        said = merge_statements.insert(target, view_of(rows), columns, batch_id, dates)
        return has_added(partial(self._commit, table, said, attempt))

    def _merge(self, table: str, dates: Collection[str], attempt: Attempt) -> None:
        target, batch_id = self._dialect.identifier(table), attempt.landed.batch_id
        rows, columns = self._source(table, attempt)
        source = f"(SELECT *, false AS {envelope.GONE} FROM {view_of(rows)})"  # noqa: S608 - a made name
        before = self._dates_of(table, attempt)
        if before and (gone := self._gone(table, rows, batch_id, before)):
            lost = self.spark.createDataFrame(
                [(ordinal, True) for ordinal in gone],
                f"{envelope.ORDINAL} bigint, {envelope.GONE} boolean",
            )
            kept = rows.selectExpr("*", f"false AS {envelope.GONE}")
            source = view_of(kept.unionByName(lost, allowMissingColumns=True))
        said = merge_statements.merge(target, source, columns, batch_id, {*dates, *before})
        self._commit(table, said, attempt)

    def _source(self, table: str, attempt: Attempt) -> tuple[DataFrame, list[str]]:
        """Return the rows to land, and the table's columns, null if the batch has no values."""
        steps.reached(steps.LANDING_MOVE, table)
        schema = self._ready.pop(table, None) or self._rows(table).schema
        folder = f"{attempt.folder}/{file_moves.folder_of(table)}"
        return parquet_files(self.spark, schema, [folder]), schema.names

    def _commit(self, table: str, statement: str, attempt: Attempt) -> None:
        began = time.monotonic()
        attempt.fence()
        self.spark.sql(statement).collect()
        logger.info("%s: committed in %.1f s.", self.label(table), time.monotonic() - began)

    def _dates_of(self, table: str, attempt: Attempt) -> set[str]:
        """Dates on which the table has rows of a batch.

        By `batch_id` alone all files of a compacted table would be read, since each of them has
        rows of many batches.
        """
        if attempt.is_new:
            return set()
        condition = f"{envelope.BATCH_ID} = {statements.text(attempt.landed.batch_id)}"
        if (within := _dates_within(table, attempt)) is not None:
            condition += f" AND {merge_statements.on_dates(within)}"
        rows = self._rows(table).where(condition)
        return {str(row[0]) for row in rows.select(envelope.EVENT_DATE).distinct().collect()}

    def _gone(
        self, table: str, rows: DataFrame, batch_id: str, dates: Collection[str]
    ) -> list[int]:
        """Ordinals of the batch's rows in the table that this landing does not have."""
        ours = self._rows(table).where(merge_statements.of_batch(batch_id, dates))
        old = ours.select(envelope.ORDINAL)
        found = old.join(rows.select(envelope.ORDINAL), on=envelope.ORDINAL, how="left_anti")
        ordinals: list[int] = found.toArrow().column(envelope.ORDINAL).to_pylist()
        return ordinals

    def _remove(self, table: str, attempt: Attempt) -> None:
        if not set(_NEEDED).issubset(self._rows(table).columns):
            return
        if _dates_within(table, attempt) == set():
            return
        batch_id = attempt.landed.batch_id
        if dates := self._dates_of(table, attempt):
            steps.reached(steps.LANDING_REMOVE, table)
            attempt.fence()
            target = self._dialect.identifier(table)
            self.spark.sql(merge_statements.delete(target, batch_id, dates))

    def _check(self, attempt: Attempt, tables: Iterable[str]) -> None:
        """Count the batch's rows in tables whose commits are not enough."""
        landed = {one.name: one.rows for one in attempt.landed.tables}
        expected = {table: landed[table] for table in tables}
        within = {table: _dates_within(table, attempt) for table in expected}
        if wrong := self._differences(attempt.landed.batch_id, expected, within):
            attempt.fence()
            raise StagingError(
                f"Batch {attempt.landed.batch_id} was committed, but {wrong}: another commit took "
                "its place. It does not count as landed. Run the task again."
            )

    def _differences(
        self,
        batch_id: str,
        expected: Mapping[str, int],
        dates: Mapping[str, Collection[str] | None],
    ) -> str:
        """Describe a wrong number of rows of a batch; empty if the numbers are right.

        :param dates: by table, on which they are counted; None: on all.
        """
        for table, rows in sorted(expected.items()):
            found = 0
            if self._dialect.exists(table):
                ours = f"{envelope.BATCH_ID} = {statements.text(batch_id)}"
                if (within := dates[table]) is not None:
                    ours += f" AND {merge_statements.on_dates(within)}"
                found = self._rows(table).where(ours).count()
            if found != rows:
                return f"{self.label(table)} holds {counted(found, 'row')} of it instead of {rows}"
        return ""


def _as_wanted(schema: StructType, columns: str) -> Iterable[str]:
    """SQL of wanted columns, null where a table with this schema lacks them."""
    there = {field.name.casefold(): field for field in schema.fields}
    return (taken(there.get(one.name.casefold()), one) for one in parsed(columns).fields)


def _dates_within(table: str, attempt: Attempt) -> set[str] | None:
    """Dates on which rows of the batch may be in a table, its own included; None: any.

    Catalogs may give names in lower case.
    """
    if attempt.dates is None:
        return None
    known = (attempt.dates, attempt.landed.dates)
    return {
        date
        for by_table in known
        for name, dates in by_table.items()
        if name.casefold() == table.casefold()
        for date in dates
    }
