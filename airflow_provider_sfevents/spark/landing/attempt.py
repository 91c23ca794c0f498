"""One attempt at landing one batch: its steps in order, and the files that a failed one leaves."""

from __future__ import annotations

import json
import logging
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import NotLandedError, StagingError
from airflow_provider_sfevents.spark.landing.deduplicate import (
    DAYS_AROUND_RECEIPT,
    Comparison,
    dates_around,
)
from airflow_provider_sfevents.spark.landing.fence import (
    LEFT_OVERS,
    Fence,
    OtherFormLandedError,
    older,
    twins,
)
from airflow_provider_sfevents.spark.landing.landed_batch import FEW, FEW_BYTES, LandedBatch
from airflow_provider_sfevents.spark.landing.staged_batch import ensure_unchanged
from airflow_provider_sfevents.spark.landing.writing import AttemptWriter
from airflow_provider_sfevents.spark.schema.drift import drift_report
from airflow_provider_sfevents.spark.side_by_side import beside
from airflow_provider_sfevents.spark.tables import file_moves
from airflow_provider_sfevents.spark.tables.interface import Attempt
from airflow_provider_sfevents.spark.tables.ledger import LandedTable, LedgerRow, new_schemas
from airflow_provider_sfevents.spark.tables.merging.merged_ledger import OtherFormError
from airflow_provider_sfevents.staging.manifest import Receipt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
    from concurrent.futures import Future

    from airflow_provider_sfevents.spark.files import Files
    from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
    from airflow_provider_sfevents.spark.landing.staged_batch import StagedBatch
    from airflow_provider_sfevents.spark.tables.interface import Tables
    from airflow_provider_sfevents.spark.tables.ledger import LedgerView
    from airflow_provider_sfevents.spark.tables.type_records import TypeRecords

logger = logging.getLogger(__name__)

WRITER = "airflow_provider_sfevents.spark.land"
_COMPARISONS = 10


class LandingAttempt:
    """One attempt at landing one batch.

    :param rows_found: as of `land_batch.land`.
    """

    def __init__(
        self,
        files: Files,
        tables: Tables,
        types: TypeRecords,
        batch: StagedBatch,
        options: LandingOptions,
        rows_found: Callable[[LandedBatch], None],
    ) -> None:
        self._files = files
        self._tables = tables
        self._types = types
        self._batch = batch
        self._options = options
        self._rows_found = rows_found
        self._root = tables.root
        self._batch_id = batch.manifest.batch_id
        self._fence = Fence(files, self._root, tables.ledger, batch)
        # Whether the tables may hold files of this batch that this landing will not have.
        self._left_overs = False
        self.dates: Mapping[str, Sequence[str]] = {}
        """Event dates of the rows that have landed, by table; known after `run`."""
        self.gave_way = False
        """The rows that have landed are those of another attempt; known after `run`."""
        # Whether a table was seen to hold rows of this batch before this landing.
        self._is_landed = False

    def run(self) -> Receipt:
        before: Future[LedgerView] | None = None
        writer = AttemptWriter(
            self._tables.spark,
            self._files,
            self._batch,
            self._fence.folder,
            keep_payload=self._options.keep_payload,
        )
        try:
            self._make_folder()
            # The ledger is read while Spark writes: a batch that has landed seldom lands again.
            with beside(self._fence.check) as before:
                writer.write()
            return self._receipt(self._land(writer))
        except OtherFormLandedError as other:
            # Killed attempts at this form, too: no landing of this form will come by any more.
            self._clean(twins(self._fence.attempts_there(), self._fence.attempt))
            return self._receipt(self._given_way(other.landed))
        except Exception:
            now = None
            # What went wrong is worth more than that the store is out of reach for these, too.
            with suppress(StagingError):
                self._clean_up()
            with suppress(StagingError):
                now = self._fence.landed()
            if now is None or not self._is_from_another(now, before):
                raise
            return self._receipt(self._given_way(now))

    def _is_from_another(self, now: LedgerRow, before: Future[LedgerView] | None) -> bool:
        """Tell whether another attempt has landed meanwhile, or another form at any time.

        :param before: what the ledger said when this attempt began. Without it the row may be that
            of an earlier landing, which is to be replaced.
        """
        if self._fence.is_other_form(now):
            return True
        if before is None or not before.done() or before.exception() is not None:
            return False
        return now != before.result().row

    def _given_way(self, landed: LedgerRow) -> LedgerRow:
        self.gave_way = True
        self._tables.ensure_holds(landed)
        if self._fence.is_other_form(landed):
            logger.warning(
                "Batch %s has landed already in another form, staged at %s and ending at %s; this "
                "one, staged at %s, changes nothing and its receipt says what has landed. What "
                "comes after that belongs to the next batch.",
                self._batch_id,
                landed.staged_at.isoformat(),
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
        """Make the attempt's folder, and remember whether other attempts had folders.

        Other attempts may leave files in the tables, and their folders may be gone later.
        """
        steps.reached(steps.LANDING_FOLDER, self._batch_id)
        self._left_overs = self._files.exists(self._fence.attempts)
        self._files.make_folder(self._fence.folder)
        self._left_overs |= bool(self._others())

    def _others(self) -> list[str]:
        return [name for name in self._fence.attempts_there() if name != self._fence.attempt]

    def _land(self, writer: AttemptWriter) -> LedgerRow:
        undecodable = writer.rows().get(file_moves.QUARANTINE, 0)
        self._leave_out_duplicates(writer)
        self._check(writer, undecodable)
        ensure_unchanged(self._files, self._batch)
        return self._publish(writer)

    def _leave_out_duplicates(self, writer: AttemptWriter) -> None:
        """Find and leave out duplicates; compare again if files were added during the comparison.

        :raises StagingError: files were added during each comparison.
        """
        paths = tuple(writer.written)
        comparison = Comparison(
            self._tables, self._batch, folder=self._fence.folder, contents=writer.contents
        )
        for _ in range(_COMPARISONS):
            steps.reached(steps.LANDING_COMPARE, self._batch_id)
            standing = comparison.standing(paths)
            found = comparison.duplicates(writer.written, standing)
            self._is_landed |= found.is_landed
            if found.ordinals:
                writer.leave_out(found.ordinals)
            if comparison.standing(paths) == standing:
                return
        raise StagingError(
            f"Other batches keep landing in the tables of batch {self._batch_id} faster than it "
            "can be compared with them; nothing was landed. Run the task again."
        )

    def _publish(self, writer: AttemptWriter) -> LedgerRow:
        view = self._fence.check()
        others, before = self._others(), view.row
        has_died = self._left_overs or bool(others)
        self._left_overs = has_died or before is not None
        # What changed when the batch landed first, landing it again does not see.
        said = before.drift if before else ()
        schemas = new_schemas(self._batch.plan, self._batch.manifest.org_id, view.schemas)
        changes = self._record({one.schema_id for one in schemas})
        drift = (*said, *(change for change in changes if change not in said))
        landed = replace(self._to_landed(writer), drift=drift, schemas=schemas)
        if before is not None:
            landed = replace(landed, revision=before.revision + 1)
        attempt = Attempt(
            folder=self._fence.folder,
            written=writer.written,
            schemas={table: writer.schema(table) for table in writer.rows()},
            landed=landed,
            left_overs=self._left_overs,
            before=None if has_died or before is None else before.files,
            dates=None if has_died else self._dates_it_may_have(before, writer),
            is_new=not (self._left_overs or self._is_landed),
            fence=self._before_effect,
            rows_landed=self._passed_on(writer, landed),
        )
        try:
            self._overtake(older(others, self._fence.attempt), view.claimed_by, landed)
            self._tables.publish(attempt)
        except OtherFormError as other:
            self._fence.check()
            raise NotLandedError(
                f"Another landing of batch {self._batch_id}, at another form of it, has begun "
                "meanwhile; this landing gives way to it. Run the task again."
            ) from other
        steps.reached(steps.LANDING_CLEAN, self._batch_id)
        self._clean((*others, LEFT_OVERS))
        return landed

    def _passed_on(self, writer: AttemptWriter, landed: LedgerRow) -> Callable[[], None]:
        """Pass the batch on now if the driver holds its rows; otherwise once they are in tables."""
        manifest = self._batch.manifest
        few = manifest.events <= FEW and manifest.bytes <= FEW_BYTES
        batch = LandedBatch(
            staged=self._batch,
            tables=self._tables,
            dates=landed.dates,
            contents=writer.contents if few else {},
        )
        if not batch.contents:
            return partial(self._rows_found, batch)
        self._rows_found(batch)
        return lambda: None

    def _overtake(
        self, outdated: Iterable[str], claimed_by: datetime | None, landed: LedgerRow
    ) -> None:
        """Stop attempts at older forms of the batch, and take over an ended attempt's claim.

        :raises OtherFormError: another form has landed meanwhile.
        """
        outdated = list(outdated)
        for name in outdated:
            steps.reached(steps.LANDING_CLEAR, name)
            self._files.remove(f"{self._fence.attempts}/{name}")
        if outdated or claimed_by not in {None, landed.staged_at}:
            self._tables.ledger.claim(landed)

    def _dates_it_may_have(
        self, before: LedgerRow | None, writer: AttemptWriter
    ) -> Mapping[str, Sequence[str]]:
        """Return, by table, the dates that may hold rows of this batch, if no attempt has died.

        Without a ledger row there are none, unless a user deleted that row. The table's rows then
        have dates near those of the attempt.
        """
        if before is not None:
            return before.dates
        around = file_moves.dates_of(writer.written).items()
        return {table: dates_around(dates, DAYS_AROUND_RECEIPT) for table, dates in around}

    def _record(self, new_schema_ids: AbstractSet[str]) -> tuple[Mapping[str, Any], ...]:
        """Record the tables' columns, and return their changes.

        :raises ColumnsMovedError: another landing has recorded columns since the batch was planned.
        """
        drift = drift_report(self._batch.plan, new_schema_ids)
        self._types.keep(self._batch.plan.evolutions)
        for change in drift:
            logger.info("%s", change.text())
        # As the ledger will give it back.
        return tuple(json.loads(json.dumps(change.to_dict())) for change in drift)

    def _before_effect(self) -> None:
        self._fence.check()
        self._left_overs = True

    def _clean_up(self) -> None:
        """Remove this attempt's folder; leave `left-overs` if files may be in the tables.

        No such folder is needed if another attempt has removed this attempt's folder, or if the
        batch has landed: in both cases the next landing looks for these files anyway.
        """
        unsaid = self._left_overs and self._files.exists(self._fence.folder)
        if unsaid and self._fence.landed() is None:
            self._files.make_folder(f"{self._fence.attempts}/{LEFT_OVERS}")
        self._clean(())

    def _clean(self, others: Iterable[str]) -> None:
        """Remove the folders of these attempts, and parent folders that become empty."""
        for name in (*others, self._fence.attempt):
            self._files.remove(f"{self._fence.attempts}/{name}")
        self._files.remove_if_empty(self._fence.attempts)
        self._files.remove_if_empty(f"{self._root}/{file_moves.LANDING}")

    def _check(self, writer: AttemptWriter, undecodable: int) -> None:
        """Check that the counts add up to the batch's events.

        :param undecodable: events of the whole batch, including left-out duplicates.
        """
        events = self._batch.manifest.events
        rows = sum(writer.written.values())
        duplicates = len(writer.left_out)
        if rows + duplicates != events:
            raise StagingError(
                f"Batch {self._batch_id} has {counted(events, 'event')}, but "
                f"{counted(rows, 'row')} and {counted(duplicates, 'duplicate')} were found; "
                "nothing was landed. Either its staged files changed meanwhile, or another "
                "attempt was at work on it: run the task again."
            )
        quarantined = writer.rows().get(file_moves.QUARANTINE, 0)
        limit = self._options.max_quarantined
        too_many = undecodable == events if limit is None else quarantined > limit
        if too_many and quarantined:
            share = (
                "which is all of them" if limit is None else f"more than max_quarantined={limit}"
            )
            raise NotLandedError(
                f"{quarantined} of {counted(events, 'event')} of batch {self._batch_id} cannot be "
                f"decoded, {share}; nothing was landed and the batch stays staged. The first "
                f"reason: {writer.first_reason()}. Mend the cause and run the task again, or raise "
                "max_quarantined to land them in quarantine."
            )

    def _to_landed(self, writer: AttemptWriter) -> LedgerRow:
        manifest = self._batch.manifest
        rows = writer.rows()
        return LedgerRow(
            batch_id=self._batch_id,
            org_id=manifest.org_id,
            topic=manifest.topic,
            consumer=manifest.consumer,
            epoch=manifest.epoch,
            batch_number=manifest.batch_number,
            staged_at=self._fence.staged_at,
            landed_at=datetime.now(UTC),
            attempt=self._fence.attempt,
            start=manifest.start,
            end=manifest.end,
            ended_by=manifest.ended_by,
            events=manifest.events,
            quarantined=rows.get(file_moves.QUARANTINE, 0),
            duplicates=len(writer.left_out),
            tables=tuple(self._landed_table(writer, name) for name in sorted(rows)),
            losses=manifest.losses,
        )

    def _landed_table(self, writer: AttemptWriter, name: str) -> LandedTable:
        written = [path for path in writer.written if file_moves.table_of(path) == name]
        plan = self._batch.plan
        schemas = next((one.schemas for one in plan.types if one.name == name), plan.names)
        earliest, latest = writer.times(name)
        return LandedTable(
            name=name,
            rows=writer.rows()[name],
            dates=tuple(file_moves.dates_of(written).get(name, ())),
            earliest=earliest,
            latest=latest,
            files=self._tables.files(written, self._batch_id),
            schema_ids=tuple(sorted(schemas)),
        )

    def _receipt(self, landed: LedgerRow) -> Receipt:
        self.dates = landed.dates
        locations = {self._tables.label(name): self._tables.url(name) for name in landed.rows}
        return Receipt(
            batch_id=landed.batch_id,
            events=landed.events,
            tables={self._tables.label(name): rows for name, rows in landed.rows.items()},
            quarantined=landed.quarantined,
            duplicates=landed.duplicates,
            written_at=datetime.now(UTC).isoformat(),
            writer=WRITER,
            application_id=str(self._tables.spark.conf.get("spark.app.id")),
            end=landed.end,
            drift=[dict(change) for change in landed.drift],
            locations={label: url for label, url in locations.items() if url},
        )
