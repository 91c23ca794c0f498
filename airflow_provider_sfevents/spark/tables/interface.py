"""Interface between a landing and a table format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_provider_sfevents.spark.tables.ledger import LedgerRow, LedgerView

Standing = dict[str, frozenset[str]]
"""Parts of a table that may hold rows of other batches: file names by folder, or the version.

Empty: none does. Equal to an earlier one: no row has come meanwhile.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownRows:
    """Rows of a table that may be events of a batch.

    :param standing: the files or versions that have them.
    :param dates: event dates of the rows, ISO-8601.
    """

    standing: Standing
    dates: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Files that an attempt has written, on their way into the tables.

    :param folder: URL of the attempt's own, with Parquet files:
        `event_table=<table>/event_date=<date>/staged_split=<n>/`.
    :param written: rows by file, relative to the folder.
    :param schemas: columns of what was written, by table.
    :param landed: the ledger's row; its revision counts from the row that is there.
    :param left_overs: whether other tables, too, may hold rows of this batch.
    :param before: files of the batch by the ledger, if it has landed before and no attempt has died
        since; paths relative to the root of the tables.
    :param dates: ISO-8601, by table: event dates on which rows of the batch may be; None: any
        dates, since an attempt has died.
    :param is_new: no table holds rows of the batch, as far as is known.
    :param fence: called right before each effect; raises where this landing must not go on.
    :param rows_landed: called in tables with commits once the rows are in them, before the ledger's
        row is written; returns at once.
    """

    folder: str
    written: Mapping[str, int]
    schemas: Mapping[str, StructType]
    landed: LedgerRow
    left_overs: bool
    before: tuple[str, ...] | None
    dates: Mapping[str, Sequence[str]] | None
    is_new: bool
    fence: Callable[[], None]
    rows_landed: Callable[[], None]


class Dialect(Protocol):
    """Differences between the formats with commits.

    :param using: the format's name in SQL.
    :param layout: clause of `CREATE TABLE` for partitions and clusters; empty for none.
    :param properties: of the tables that are made.
    :param keeps_commits: no commit gets lost, so the rows of a batch that lands for the first time
        need not be counted afterwards.
    :param inserts_conflict: of two INSERTs that read their own table the second fails, as a second
        MERGE does.
    """

    using: str
    layout: str
    properties: Mapping[str, str]
    keeps_commits: bool
    inserts_conflict: bool

    def label(self, table: str) -> str: ...

    def url(self, table: str) -> str:
        """URL of a table of a catalog; empty if it is not known, or the table is by path."""
        ...

    def identifier(self, table: str) -> str:
        """A table's name in SQL."""
        ...

    def exists(self, table: str) -> bool: ...

    def names(self) -> list[str]:
        """Names of the existing tables of this format."""
        ...

    def version(self, table: str) -> str:
        """Version for `VERSION AS OF`; each commit changes it, and it is empty before the first."""
        ...

    def check_table(self, table: str) -> None:
        """Check the settings of an existing table.

        :raises ConfigurationError: a table has settings with which landing is not safe.
        """
        ...


class Ledger(Protocol):
    """The table `_batches` beside the event tables (`spark.ledger`).

    :param label: name in messages.
    """

    label: str

    def version(self) -> object:
        """Value that changes with each commit; read without a Spark job if possible."""
        ...

    def view(self, batch_id: str) -> LedgerView:
        """Read the rows that concern a batch."""
        ...

    def claim(self, row: LedgerRow) -> None:
        """Keep older forms of a batch, whose folders have been removed, from landing.

        :raises merged_ledger.OtherFormError: another form has landed.
        """
        ...

    def rows(self) -> DataFrame:
        """Read all rows, once for each batch."""
        ...


class Tables(Protocol):
    """Tables of one format below one root or namespace: one per event type, one for quarantine.

    `root` is the URL of the folder for what is no table: attempts, columns' types. `spark` is the
    session in which the tables are read; it skips no file.
    """

    root: str
    spark: SparkSession

    @property
    def ledger(self) -> Ledger:
        """Ledger of the batches in the tables."""
        ...

    def label(self, table: str) -> str:
        """Name of a table in receipts and messages."""
        ...

    def url(self, table: str) -> str:
        """URL of a table of a catalog; empty if it is not known, or the table is by path."""
        ...

    def schema(self, table: str) -> StructType | None:
        """Columns of a table, None where there is no such table."""
        ...

    def standing(self, table: str, dates: Iterable[str], batch_id: str) -> Standing:
        """List the files or versions on these dates that may hold rows of other batches."""
        ...

    def known(self, tables: Mapping[str, KnownRows], columns: str, name: str) -> DataFrame:
        """Read the rows of the listed files or versions (`standing`) of several tables.

        :param columns: wanted, as DDL; those that a table does not have are null.
        :param name: of a further column with the table's name.
        """
        ...

    def files(self, written: Iterable[str], batch_id: str) -> tuple[str, ...]:
        """Files that readers find, relative to the root; empty if only the format knows them."""
        ...

    def publish(self, attempt: Attempt) -> None:
        """Publish the attempt: replace the batch's rows in the tables, and write the ledger's row.

        After a kill at any step, the next landing of the batch completes it.

        :raises StagingError: the tables do not hold the batch afterwards.
        :raises merged_ledger.OtherFormError: another form has landed or claimed the batch
            meanwhile.
        """
        ...

    def ensure_holds(self, landed: LedgerRow) -> None:
        """Make sure that the tables hold the rows that the ledger says.

        :raises NotLandedError: they do not; they were changed.
        """
        ...

    def read(self, table: str) -> DataFrame:
        """Read a table.

        :raises ConfigurationError: there is no such table.
        """
        ...
