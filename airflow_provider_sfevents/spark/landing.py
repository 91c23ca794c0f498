"""Landing a staged batch in Parquet tables: decode, write beside the tables, compare, move in, say so.

The order of effects, each of which may be the last one before a kill:
1. everything is read and checked; 2. Spark writes into `_landing/<batch id>/<attempt>/`; 3. what was written is compared with what
has landed, and events that are there already are left out (`identities`); 4. rows, quarantined and duplicates are counted and must
add up to the manifest's events; 5. files move into the tables, left-overs of earlier landings go, `_landed/<batch id>.json` is
written (`publish`); 6. the folders of this and of earlier attempts go; 7. the receipt is written.

A twin may land the same batch at the same time. Both move the same files to the same names. The one that finishes first removes
the other's folder, which then fails, sees that the batch landed while it was at work, and gives way. It removes only folders
that were there before it wrote `_landed/...`, so that a landing begun afterwards is left alone. A twin at another form of the
batch is another matter: `fence`. Where another form has landed, nothing is changed, and the receipt says what has landed.
"""

from __future__ import annotations

import logging
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import NotLanded, StagingError
from airflow_provider_sfevents.spark import envelope, landing_steps, publish
from airflow_provider_sfevents.spark.fence import LEFT_OVERS, Fence, OtherFormLanded, older, twins
from airflow_provider_sfevents.spark.hadoop import Files
from airflow_provider_sfevents.spark.identities import Comparison
from airflow_provider_sfevents.spark.staged import (
    StagedBatch,
    ensure_unchanged,
    open_batch,
    write_receipt_file,
)
from airflow_provider_sfevents.spark.writing import AttemptWriter
from airflow_provider_sfevents.staging.manifest import Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

WRITER = "airflow_provider_sfevents.spark.land"
_ROWS_PER_ARROW_BATCH = 10_000
_BYTES_PER_ARROW_BATCH = 64 * 1024 * 1024
_COMPARISONS = 10


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
    spark: SparkSession, order: Order, step: landing_steps.Step = landing_steps.no_step
) -> Receipt:
    """Land a batch, or land it again, exactly once either way.

    :param step: called before each effect; killers and twins of tests come in there.
    :returns: what has landed. Where another form of the batch had landed before, or did so meanwhile: that, with its counts and end.
    :raises StagingError: the batch is not whole, or what was written does not add up to it.
    :raises NotLanded: too many events would go to quarantine, or a newer form of the batch is being landed. Nothing counts as landed.
    """
    began = time.monotonic()
    files = Files(spark)
    batch = open_batch(spark, files, order.manifest_url)
    receipt = _Landing(spark, files, batch, order, step).run()
    step(landing_steps.RECEIPT_NEXT, receipt.batch_id)
    write_receipt_file(files, batch, receipt)
    step(landing_steps.RECEIPT_WRITTEN, receipt.batch_id)
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
        step: landing_steps.Step,
    ) -> None:
        self._spark = spark
        self._files = files
        self._batch = batch
        self._order = order
        self._step = step
        self._root = order.table.rstrip("/")
        self._batch_id = batch.manifest.batch_id
        self._fence = Fence(files, self._root, batch)
        # Whether the tables may hold files of this batch that this landing will not have.
        self._left_overs = False

    def run(self) -> Receipt:
        before = self._fence.landed()
        try:
            self._fence.check()  # here first: where another form has landed, Spark has nothing to do
            self._make_folder()
            return self._receipt(self._land())
        except OtherFormLanded as other:
            # Killed attempts at this form, too: no landing of this form will come by any more.
            self._clean(twins(self._fence.attempts_there(), self._fence.attempt))
            return self._receipt(self._given_way(other.landed))
        except Exception:
            now = before
            with suppress(StagingError):
                # What went wrong is worth more than that the store is out of reach for this, too.
                self._clean_up()
                now = self._fence.landed()
            if now is None or (now == before and not self._fence.is_other_form(now)):
                raise
            return self._receipt(self._given_way(now))

    def _given_way(self, landed: publish.Landed) -> publish.Landed:
        if self._fence.is_other_form(landed):
            logger.warning(
                "Batch %s has landed already in another form, staged at %s and ending at %s; this one, staged at %s, changes nothing and "
                "its receipt says what has landed. What lies beyond that belongs to the next batch.",
                self._batch_id,
                landed.staged_at,
                landed.end,
                self._batch.manifest.created_at,
            )
        else:
            logger.info(
                "Another attempt landed batch %s meanwhile; this one gives way to it.",
                self._batch_id,
            )
        return landed

    def _make_folder(self) -> None:
        """Make the attempt's folder, and remember who was there: whoever is may leave files in the tables, and be gone later."""
        self._step(landing_steps.FOLDER, self._batch_id)
        self._left_overs = self._files.exists(self._fence.attempts)
        self._files.make_folder(self._fence.folder)
        self._left_overs |= bool(self._others())

    def _others(self) -> list[str]:
        return [name for name in self._fence.attempts_there() if name != self._fence.attempt]

    def _land(self) -> publish.Landed:
        writer = AttemptWriter(
            _reading_session(self._spark, self._batch),
            self._files,
            self._batch,
            self._fence.folder,
            keep_payload=self._order.keep_payload,
            step=self._step,
        )
        writer.write()
        undecodable = writer.rows().get(publish.QUARANTINE, 0)
        self._leave_out_duplicates(writer)
        self._check(writer, undecodable)
        moves = publish.plan_moves(writer.written, self._batch_id)
        landed = self._to_landed(writer, moves)
        ensure_unchanged(self._files, self._batch)
        self._publish(moves, landed)
        return landed

    def _leave_out_duplicates(self, writer: AttemptWriter) -> None:
        """Compare as late as can be: once more where files came while the comparison was made.

        :raises StagingError: there is no end of them.
        """
        paths = tuple(writer.written)
        comparison = Comparison(
            self._spark, self._files, self._batch, root=self._root, folder=self._fence.folder
        )
        for _ in range(_COMPARISONS):
            self._step(landing_steps.COMPARE, self._batch_id)
            standing = comparison.standing(paths)
            if found := comparison.duplicates(writer.written, standing):
                writer.leave_out(found)
            if comparison.standing(paths) == standing:
                return
        raise StagingError(
            f"Other batches keep landing in the tables of batch {self._batch_id} faster than it can be compared with them; nothing was "
            "landed. Run the task again."
        )

    def _publish(self, moves: Iterable[publish.Move], landed: publish.Landed) -> None:
        self._fence.check()
        others = self._others()
        self._left_overs |= bool(others) or self._fence.landed() is not None
        standing = self._standing if self._left_overs else tuple[str, ...]
        for name in older(others, self._fence.attempt):
            self._step(landing_steps.CLEAR, name)
            self._files.remove(f"{self._fence.attempts}/{name}")
        publish.publish(
            self._files,
            self._root,
            self._fence.folder,
            moves,
            standing,
            landed,
            self._step,
            self._before_effect,
        )
        self._step(landing_steps.CLEAN, self._batch_id)
        self._clean((*others, LEFT_OVERS))

    def _before_effect(self) -> None:
        self._fence.check()
        self._left_overs = True

    def _clean_up(self) -> None:
        """Leave nothing behind; where that may be files in the tables, word of them.

        Whoever has cleared this attempt's folder away looks for them already, and so does every landing of a batch that has landed.
        """
        unsaid = self._left_overs and self._files.exists(self._fence.folder)
        if unsaid and self._fence.landed() is None:
            self._files.make_folder(f"{self._fence.attempts}/{LEFT_OVERS}")
        self._clean(())

    def _clean(self, others: Iterable[str]) -> None:
        """Remove the folders of this attempt and of others, and what is empty without them."""
        for name in (*others, self._fence.attempt):
            self._files.remove(f"{self._fence.attempts}/{name}")
        self._files.remove_if_empty(self._fence.attempts)
        self._files.remove_if_empty(f"{self._root}/{publish.LANDING}")

    def _check(self, writer: AttemptWriter, undecodable: int) -> None:
        """:param undecodable: events of the whole batch, those that are left out as duplicates too."""
        events = self._batch.manifest.events
        rows = sum(writer.written.values())
        duplicates = len(writer.left_out)
        if rows + duplicates != events:
            raise StagingError(
                f"Batch {self._batch_id} has {events} events, but {rows} rows were written and {duplicates} are duplicates; nothing was "
                "landed. Either its staged files changed meanwhile, or another attempt was at work on it: run the task again."
            )
        quarantined = writer.rows().get(publish.QUARANTINE, 0)
        limit = self._order.max_quarantined
        too_many = undecodable == events if limit is None else quarantined > limit
        if too_many and quarantined:
            raise NotLanded(
                f"{quarantined} of {events} events of batch {self._batch_id} cannot be decoded, "
                f"{'which is all of them' if limit is None else f'more than max_quarantined={limit}'}; nothing was landed and the batch "
                f"stays staged. The first reason: {self._first_reason()}. Mend the cause and run the task again, or raise "
                "max_quarantined to land them in quarantine."
            )

    def _first_reason(self) -> str:
        found = (
            self._spark.read.parquet(f"{self._fence.folder}/{publish.QUARANTINE}/*")
            .orderBy(envelope.ORDINAL)
            .first()
        )
        return str(found[envelope.REASON]) if found else "unknown"

    def _to_landed(self, writer: AttemptWriter, moves: Iterable[publish.Move]) -> publish.Landed:
        manifest = self._batch.manifest
        rows = writer.rows()
        return publish.Landed(
            batch_id=self._batch_id,
            attempt=self._fence.attempt,
            events=manifest.events,
            quarantined=rows.pop(publish.QUARANTINE, 0),
            duplicates=len(writer.left_out),
            tables=rows,
            files=tuple(move.target for move in moves),
            org_id=manifest.org_id,
            topic=manifest.topic,
            consumer=manifest.consumer,
            written_at=_now(),
            staged_at=manifest.created_at,
            start=manifest.start,
            end=manifest.end,
        )

    def _receipt(self, landed: publish.Landed) -> Receipt:
        return Receipt(
            batch_id=landed.batch_id,
            events=landed.events,
            tables={f"{self._root}/{name}": rows for name, rows in landed.tables.items()},
            quarantined=landed.quarantined,
            duplicates=landed.duplicates,
            written_at=_now(),
            writer=WRITER,
            application_id=str(self._spark.sparkContext.applicationId),
            end=landed.end or self._batch.manifest.end,
        )

    def _standing(self) -> Iterable[str]:
        return self._files.walk(self._root)


def _reading_session(spark: SparkSession, batch: StagedBatch) -> SparkSession:
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
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(_ROWS_PER_ARROW_BATCH),
        "spark.sql.execution.arrow.maxBytesPerBatch": str(_BYTES_PER_ARROW_BATCH),
    }
    for key, value in settings.items():
        session.conf.set(key, value)
    session.conf.unset("spark.sql.files.maxPartitionNum")
    return session


def _summary(receipt: Receipt) -> str:
    tables = [f"{rows} rows in {name}" for name, rows in receipt.tables.items()]
    left_out = [f"{receipt.duplicates} duplicates left out"] if receipt.duplicates else []
    return ", ".join([*tables, f"{receipt.quarantined} in quarantine", *left_out])


def _now() -> str:
    return datetime.now(UTC).isoformat()
