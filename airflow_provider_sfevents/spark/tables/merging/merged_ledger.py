"""The ledger of Delta and Iceberg tables: the table `_batches` in their format.

1. A batch's row is written by one MERGE, which fails if the ledger has the batch in another form.
   Of two concurrent MERGEs the second meets a conflict, reads the ledger again, and then fails too.
   In Delta an INSERT tries before, which fails if the ledger has the batch in any form.
2. An attempt that has removed the folders of attempts at older forms *claims* the batch before it
   changes a table: a row with the id `ledger.claim_id` and the time of its manifest. If an older
   attempt writes its row before the claim, the claim fails. If it writes later, it meets a conflict
   with the claim, reads the ledger again, and fails.
3. The MERGE that writes the batch's row removes the claim. The claim of an attempt that died is
   taken over by the next attempt, of any form.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.schema.field_types import quoted
from airflow_provider_sfevents.spark.tables import iceberg, ledger, naming, statements
from airflow_provider_sfevents.spark.tables.merging import merge_statements
from airflow_provider_sfevents.spark.tables.merging.conflicts import (
    has_added,
    java_text,
    retry_conflicts,
)
from airflow_provider_sfevents.spark.tables.statements import text
from airflow_provider_sfevents.spark.tables.table_options import event_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from airflow_provider_sfevents.spark.tables.interface import Dialect
    from airflow_provider_sfevents.spark.tables.ledger import LedgerRow, LedgerView

_PROPERTIES = {
    # Copying would first look for the files to copy, in a job of its own.
    naming.ICEBERG: {**iceberg.PROPERTIES, "write.merge.mode": "merge-on-read"}
}
_REFUSAL = "sfevents: the ledger has the batch in another form"
_CHECK, _CLAIM = -1, 0
"""Revisions of rows of a MERGE's source that are not written as they are: one to compare, one for
the claim.
"""


class OtherFormError(Exception):
    """The ledger has the batch in another form, landed or claimed."""


class MergedLedger:
    """Ledger of Delta or Iceberg tables.

    :param spark: session in which the format is set up.
    """

    def __init__(self, spark: SparkSession, dialect: Dialect) -> None:
        self._spark = spark
        self._dialect = dialect
        self.label = dialect.label(ledger.TABLE)
        self._is_there = False
        self._is_ready = False

    def version(self) -> object:
        return self._dialect.version(ledger.TABLE) if self._exists() else ""

    def view(self, batch_id: str) -> LedgerView:
        """Read the rows that concern a batch, in one query."""
        if not self._exists():
            return ledger.LedgerView()
        ids = f"{text(batch_id)}, {text(ledger.claim_id(batch_id))}"
        rows = self._rows().where(f"`batch_id` IN ({ids}) OR `new_schemas` > 0")
        return ledger.view_of(rows.toArrow().to_pylist(), batch_id)

    def rows(self) -> DataFrame:
        if not self._exists():
            return self._spark.createDataFrame([], ledger.columns())
        return self._rows().where("`revision` > 0")

    def make(self) -> None:
        """Create the table unless it is there; options of event tables do not concern it.

        :raises ConfigurationError: it is set up so that two landings at once would not see each
            other.
        """
        if self._is_ready:
            return
        if not self._exists():
            using = self._dialect.using
            own = {**event_properties(using), **_PROPERTIES.get(using, {})}
            self._spark.sql(statements.create(self._name(), using, ledger.columns(), "", own))
        self._dialect.check_table(ledger.TABLE)
        self._is_ready = True

    def claim(self, row: LedgerRow) -> None:
        """Keep other forms of the batch from landing until this one has.

        :raises OtherFormError: another form has landed.
        """
        self.make()
        source = [self._special(row, _CLAIM), self._special(row, _CHECK)]
        clauses = (
            f"WHEN MATCHED AND s.`revision` = {_CHECK} AND t.`staged_at` <> s.`staged_at` "  # noqa: S608 - values are quoted
            f"THEN UPDATE SET `attempt` = {_refused()} "
            f"WHEN MATCHED AND s.`revision` = {_CLAIM} "
            "THEN UPDATE SET `staged_at` = s.`staged_at`, `attempt` = s.`attempt` "
            f"WHEN NOT MATCHED AND s.`revision` = {_CLAIM} THEN INSERT {_inserted()}"
        )
        gave_up = f"Other landings kept committing to {self.label}. Run the task again."
        retry_conflicts(partial(self._merge, source, clauses), gave_up)

    def add(self, row: LedgerRow) -> bool:
        """Add the row of a batch that has landed for the first time.

        Return False if the ledger has the batch already, or a claim of it.
        """
        self.make()
        ids = f"{text(row.batch_id)}, {text(ledger.claim_id(row.batch_id))}"
        # Not a constant: for a join without a key Spark broadcasts rows, by a job of its own.
        ours = f"CASE WHEN `batch_id` IN ({ids}) THEN {text(row.batch_id)} END"
        there = f"SELECT {ours} FROM {self._name()} WHERE `batch_id` IN ({ids})"  # noqa: S608 - all is quoted
        source = f"({ledger.rows_sql([row.to_values()])})"
        columns = ledger.COLUMNS.names
        said = merge_statements.insert_unless_there(
            self._name(), source, columns, "`batch_id`", there
        )
        return has_added(self._spark.sql(said).collect)

    def write(self, row: LedgerRow) -> None:
        """Write the row of a batch that has landed.

        :raises OtherFormError: another form has landed, or has claimed the batch.
        """
        self.make()
        updated = ", ".join(
            f"{quoted(name)} = s.{quoted(name)}"
            for name in ledger.COLUMNS.names
            if name != "revision"
        )
        self._merge(
            [row.to_values(), self._special(row, _CLAIM)],
            f"WHEN MATCHED AND t.`staged_at` <> s.`staged_at` THEN UPDATE SET `attempt` = "  # noqa: S608 - all is quoted
            f"{_refused()} "
            f"WHEN MATCHED AND s.`revision` = {_CLAIM} THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {updated}, `revision` = t.`revision` + 1 "
            f"WHEN NOT MATCHED AND s.`revision` > 0 THEN INSERT {_inserted()}",
        )

    def _special(self, row: LedgerRow, revision: int) -> dict[str, Any]:
        batch_id = ledger.claim_id(row.batch_id) if revision == _CLAIM else row.batch_id
        return {
            "batch_id": batch_id,
            "revision": revision,
            "new_schemas": 0,
            "staged_at": row.staged_at,
            "attempt": row.attempt,
        }

    def _merge(self, source: list[dict[str, Any]], clauses: str) -> None:
        """Merge a batch's row and a row for its claim."""
        batch_id = min(one["batch_id"] for one in source)
        ids = f"{text(batch_id)}, {text(ledger.claim_id(batch_id))}"
        said = (
            f"MERGE INTO {self._name()} t USING ({ledger.rows_sql(source)}) s "
            f"ON t.`batch_id` IN ({ids}) AND t.`batch_id` = s.`batch_id` {clauses}"
        )
        try:
            self._spark.sql(said).collect()
        except Exception as error:
            if _REFUSAL not in java_text(error):
                raise
            raise OtherFormError(batch_id) from error

    def _exists(self) -> bool:
        self._is_there = self._is_there or self._dialect.exists(ledger.TABLE)
        return self._is_there

    def _rows(self) -> DataFrame:
        return self._spark.sql(f"SELECT * FROM {self._name()}")  # noqa: S608 - a quoted name

    def _name(self) -> str:
        return self._dialect.identifier(ledger.TABLE)


def _refused() -> str:
    return f"CAST(raise_error({text(_REFUSAL)}) AS STRING)"


def _inserted() -> str:
    names = [quoted(name) for name in ledger.COLUMNS.names]
    return f"({', '.join(names)}) VALUES ({', '.join(f's.{name}' for name in names)})"
