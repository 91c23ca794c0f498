"""Landing a staged batch in Parquet tables: decode, write beside the tables, move in, say so.

The order of effects, each of which may be the last one before a kill:
1. everything is read and checked; 2. Spark writes into `_landing/<batch id>/<attempt>/`; 3. rows and quarantined are counted in
what was written and must add up to the manifest's events; 4. files move into the tables, left-overs of earlier landings go,
`_landed/<batch id>.json` is written (`publish`); 5. the folders of this and of earlier attempts go; 6. the receipt is written.

A twin may land the same batch at the same time. Both move the same files to the same names. The one that finishes first removes
the other's folder, which then fails, sees that the batch landed while it was at work, and gives way. It removes only folders
that were there before it wrote `_landed/...`, so that a landing begun afterwards is left alone.
"""

from __future__ import annotations

import json
import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_provider_sfevents.exceptions import NotLanded, StagingError
from airflow_provider_sfevents.spark import envelope, publish
from airflow_provider_sfevents.spark.hadoop import Files
from airflow_provider_sfevents.spark.staged import StagedBatch, open_batch, write_receipt_file
from airflow_provider_sfevents.staging.manifest import Part, Receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)

WRITER = "airflow_provider_sfevents.spark.land"
_ROWS_PER_ARROW_BATCH = 10_000
_BYTES_PER_ARROW_BATCH = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to land and where.

    :param table: root URL of the tables; each event type gets a folder below.
    :param max_quarantined: more undecodable events than this and nothing lands; None: only where not one event decodes.
    :param keep_payload: keep each event's raw bytes as a column.
    """

    manifest_url: str
    table: str
    max_quarantined: int | None = None
    keep_payload: bool = False


def land(
    spark: SparkSession, order: Order, step: Callable[[str], None] = lambda _name: None
) -> Receipt:
    """Land a batch, or land it again, exactly once either way.

    :param step: called before each effect with its name; tests stop there.
    :raises StagingError: the batch is not whole, or what was written does not add up to it.
    :raises NotLanded: too many events would go to quarantine. Nothing has been published.
    """
    began = time.monotonic()
    files = Files(spark)
    batch = open_batch(spark, files, order.manifest_url)
    landing = _Landing(_own_session(spark, batch), files, batch, order, step)
    receipt = landing.run()
    step("receipt")
    write_receipt_file(files, batch.folder, receipt)
    logger.info(
        "Batch %s landed in %.1f s: %s.",
        receipt.batch_id,
        time.monotonic() - began,
        _summary(receipt),
    )
    return receipt


class _Landing:
    """One attempt at landing one batch."""

    def __init__(
        self,
        spark: SparkSession,
        files: Files,
        batch: StagedBatch,
        order: Order,
        step: Callable[[str], None],
    ) -> None:
        self._spark = spark
        self._files = files
        self._batch = batch
        self._order = order
        self._step = step
        self._root = order.table.rstrip("/")
        self._batch_id = batch.manifest.batch_id
        self._attempt = uuid4().hex
        self._attempts = f"{self._root}/{publish.LANDING}/{self._batch_id}"
        self._folder = f"{self._attempts}/{self._attempt}"

    def run(self) -> Receipt:
        before = self._landed_by()
        try:
            self._step("folder")
            self._files.make_folder(self._folder)
            return self._receipt(self._land())
        except Exception:
            with suppress(
                StagingError
            ):  # what went wrong is worth more than that the store is out of reach for this, too
                self._clean(())
            now = self._landed_by()
            if now is None or now == before:
                raise
            logger.info(
                "Another attempt landed batch %s meanwhile; this one gives way to it.",
                self._batch_id,
            )
            return self._receipt(self._read_landed())

    def _land(self) -> publish.Landed:
        written = self._write_all()
        self._check(written)
        moves = publish.plan_moves(written, self._batch_id)
        landed = self._to_landed(written, moves)
        others = [name for name in self._files.names(self._attempts) if name != self._attempt]
        again = bool(others) or self._landed_by() is not None
        standing = self._standing if again else tuple[str, ...]
        publish.publish(self._files, self._root, self._folder, moves, standing, landed, self._step)
        self._step("clean")
        self._clean(others)
        return landed

    def _clean(self, others: Iterable[str]) -> None:
        """Remove the folders of this attempt and of others, and what is empty without them."""
        for name in (*others, self._attempt):
            self._files.remove(f"{self._attempts}/{name}")
        self._files.remove_if_empty(self._attempts)
        self._files.remove_if_empty(f"{self._root}/{publish.LANDING}")

    def _write_all(self) -> dict[str, int]:
        """Rows by written file, relative to the attempt's folder."""
        written: dict[str, int] = {}
        for event_type in self._batch.plan.types:
            rows = self._batch.decoded(
                self._spark, event_type, keep_payload=self._order.keep_payload
            )
            written |= self._write(rows, event_type.name)
        lacking = self._lacking(written)
        if lacking:
            written |= self._write(
                self._batch.undecodable(self._spark, lacking), publish.QUARANTINE
            )
        return written

    def _write(self, rows: DataFrame, table: str) -> dict[str, int]:
        began = time.monotonic()
        self._step(f"write {table}")
        # One staged file is one task (see `_own_session`), so that each of its dates becomes one file, in the batch's order.
        ordered = rows.sortWithinPartitions(envelope.EVENT_DATE, envelope.PART, envelope.ORDINAL)
        writer = ordered.write.partitionBy(envelope.EVENT_DATE, envelope.PART)
        writer.option("mapreduce.fileoutputcommitter.marksuccessfuljobs", "false").parquet(
            f"{self._folder}/{table}"
        )
        paths = [
            path
            for path in self._files.walk(f"{self._folder}/{table}")
            if path.endswith(".parquet")
        ]
        counts = {
            f"{table}/{path}": self._files.row_count(f"{self._folder}/{table}/{path}")
            for path in paths
        }
        logger.info(
            "%s: %d rows in %d files written in %.1f s.",
            table,
            sum(counts.values()),
            len(counts),
            time.monotonic() - began,
        )
        return counts

    def _lacking(self, written: Mapping[str, int]) -> list[Part]:
        """Staged files of which not every event has been decoded."""
        decoded = dict.fromkeys(range(len(self._batch.manifest.parts)), 0)
        for path, rows in written.items():
            decoded[publish.part_of(path)] += rows
        return [
            part
            for index, part in enumerate(self._batch.manifest.parts)
            if decoded[index] != part.events
        ]

    def _check(self, written: Mapping[str, int]) -> None:
        events = self._batch.manifest.events
        quarantined = _rows_by_table(written).get(publish.QUARANTINE, 0)
        if sum(written.values()) != events:
            raise StagingError(
                f"Batch {self._batch_id} has {events} events, but {sum(written.values())} rows were written; nothing was landed. "
                "Either its staged files changed meanwhile, or another attempt was at work on it: run the task again."
            )
        limit = self._order.max_quarantined
        too_many = quarantined == events > 0 if limit is None else quarantined > limit
        if too_many:
            raise NotLanded(
                f"{quarantined} of {events} events of batch {self._batch_id} cannot be decoded, "
                f"{'which is all of them' if limit is None else f'more than max_quarantined={limit}'}; nothing was landed and the batch "
                f"stays staged. The first reason: {self._first_reason()}. Mend the cause and run the task again, or raise "
                "max_quarantined to land them in quarantine."
            )

    def _first_reason(self) -> str:
        found = (
            self._spark.read.parquet(f"{self._folder}/{publish.QUARANTINE}/*")
            .orderBy(envelope.ORDINAL)
            .first()
        )
        return str(found[envelope.REASON]) if found else "unknown"

    def _to_landed(
        self, written: Mapping[str, int], moves: Iterable[publish.Move]
    ) -> publish.Landed:
        manifest = self._batch.manifest
        rows = _rows_by_table(written)
        return publish.Landed(
            batch_id=self._batch_id,
            attempt=self._attempt,
            events=manifest.events,
            quarantined=rows.pop(publish.QUARANTINE, 0),
            tables=rows,
            files=tuple(move.target for move in moves),
            org_id=manifest.org_id,
            topic=manifest.topic,
            consumer=manifest.consumer,
            written_at=_now(),
        )

    def _receipt(self, landed: publish.Landed) -> Receipt:
        return Receipt(
            batch_id=landed.batch_id,
            events=landed.events,
            tables={f"{self._root}/{name}": rows for name, rows in landed.tables.items()},
            quarantined=landed.quarantined,
            written_at=_now(),
            writer=WRITER,
            application_id=str(self._spark.sparkContext.applicationId),
        )

    def _standing(self) -> Iterable[str]:
        return self._files.walk(self._root)

    def _landed_by(self) -> str | None:
        """Tell which attempt landed this batch last."""
        return self._read_landed().attempt if self._files.exists(self._landed_url()) else None

    def _read_landed(self) -> publish.Landed:
        value = json.loads(self._files.read_text(self._landed_url()))
        value.pop("version")
        return publish.Landed(**{**value, "files": tuple(value["files"])})

    def _landed_url(self) -> str:
        return f"{self._root}/{publish.landed_name(self._batch_id)}"


def _own_session(spark: SparkSession, batch: StagedBatch) -> SparkSession:
    """Make a session whose settings let the result follow from the batch alone, whatever the cluster's defaults are.

    One task reads exactly one staged file: none is larger than a split, and opening a second one never pays.
    """
    session = spark.newSession()
    split = str(max(batch.largest_file, 1))
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",  # the default, INT96, is read by few
        "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
        "spark.sql.files.maxPartitionBytes": split,
        "spark.sql.files.openCostInBytes": split,
        "spark.sql.files.maxRecordsPerFile": "0",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_ROWS_PER_ARROW_BATCH),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(_BYTES_PER_ARROW_BATCH),
    }
    for key, value in settings.items():
        session.conf.set(key, value)
    session.conf.unset("spark.sql.files.maxPartitionNum")
    return session


def _rows_by_table(written: Mapping[str, int]) -> dict[str, int]:
    tables: dict[str, int] = {}
    for path, rows in written.items():
        tables[publish.table_of(path)] = tables.get(publish.table_of(path), 0) + rows
    return tables


def _summary(receipt: Receipt) -> str:
    tables = [f"{rows} rows in {name}" for name, rows in receipt.tables.items()]
    return ", ".join([*tables, f"{receipt.quarantined} in quarantine"])


def _now() -> str:
    return datetime.now(UTC).isoformat()
