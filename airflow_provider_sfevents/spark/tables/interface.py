"""What a landing asks of a table format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from airflow_provider_sfevents.spark.landing_steps import Step
    from airflow_provider_sfevents.spark.publish import Landed

Standing = dict[str, frozenset[str]]
"""What of a table may hold rows of other batches: names of files by folder, or the table's version. Empty: nothing does. Equal: nothing
has come meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What an attempt has written, on its way into the tables.

    :param folder: URL of the attempt's own, in which everything lies as Parquet: `<table>/event_date=<date>/staged_split=<n>/`.
    :param written: rows by file, relative to the folder.
    :param landed: what the mark will say.
    :param left_overs: whether other tables, too, may hold rows of this batch.
    :param before: files of the batch by its mark, if it has landed before and no attempt has died
        since; paths relative to the root of the tables.
    :param dates: ISO-8601, by table: event dates on which rows of the batch may be; None: any dates, since an attempt has died.
    :param step: called before each effect.
    :param fence: called right before each effect; raises where this landing must not go on.
    """

    folder: str
    written: Mapping[str, int]
    landed: Landed
    left_overs: bool
    before: tuple[str, ...] | None
    dates: Mapping[str, Sequence[str]] | None
    step: Step
    fence: Callable[[], None]


class Tables(Protocol):
    """Tables of one format in one place, one for each event type and one for quarantine.

    `root` is the URL of the folder for what is no table: attempts, marks of what has landed, columns' types. `spark` is the session in
    which the tables are read; it skips no file.
    """

    root: str
    spark: SparkSession

    def label(self, table: str) -> str:
        """What a table is called in receipts and messages."""
        ...

    def schema(self, table: str) -> StructType | None:
        """Columns of a table, None where there is no such table."""
        ...

    def standing(self, table: str, dates: Iterable[str] | None, batch_id: str) -> Standing:
        """What there is on these dates, None for all, that is not of this batch."""
        ...

    def known(
        self, table: str, standing: Standing, dates: Iterable[str] | None, columns: str
    ) -> DataFrame:
        """Rows of what is standing.

        :param columns: wanted, as DDL; those that the table does not have are null.
        """
        ...

    def files(self, written: Iterable[str], batch_id: str) -> tuple[str, ...]:
        """What the mark is to name: the files that readers find, relative to the root; none where only the format knows."""
        ...

    def publish(self, attempt: Attempt) -> None:
        """Bring everything in, replacing what is there of the batch, and say so by the mark; killed anywhere, the next one makes it whole.

        :raises StagingError: the tables do not hold the batch afterwards.
        """
        ...

    def ensure_holds(self, landed: Landed) -> None:
        """Make sure that the tables hold what a mark says.

        :raises NotLanded: they do not; somebody has changed them.
        """
        ...

    def read(self, table: str) -> DataFrame:
        """:raises ConfigurationError: there is no such table."""
        ...
