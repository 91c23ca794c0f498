"""Fence between two forms of one batch: one form lands, and the other gives way.

A batch has two forms if it was staged twice: its staging area was lost, or a retry ran on a worker
with another file system. A Spark job may still be at work on the first form, and continue at any
time. An attempt's folder is therefore named after the time of its manifest, and the rules are:

1. An attempt gives way for good to a form that has landed. It is no failure: its receipt says what
   has landed, so that the position moves to the end of that form. Replacing it instead could be
   interrupted, with a receipt of it in another staging area by which the position would move past
   rows that are gone.
2. While none has landed, an attempt gives way to an attempt at a newer form.
3. An attempt removes the folders of older forms' attempts before it moves its first file, and looks
   for what they may have left in the tables after its last one. The ledger's row that says "landed"
   is renamed out of the attempt's folder (Parquet), or written by a MERGE that fails once a newer
   form has claimed the batch, which it does when it removes the folders
   (`tables.merging.merged_ledger`).
4. An attempt that fails, or gives way, and may have left files in the tables leaves the folder
   `left-overs` in its own one's place: the next attempt looks for them, too.

An outdated attempt can move a file only before rule 3 removes its folder; the newer attempt then
finds that file. Afterwards the move fails, or, if the outdated attempt wrote its folder again, rule
2 stops it. Likewise it can record its landing only before its folder is removed, and rule 1 then
stops the newer attempt before its first move. This relies on a rename failing if its source is
gone. On stores that copy instead, a copy that has begun may still complete.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_provider_sfevents.exceptions import NotLandedError, StagingError
from airflow_provider_sfevents.spark.tables import file_moves
from airflow_provider_sfevents.spark.tables.ledger import LedgerView

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.spark.files import Files
    from airflow_provider_sfevents.spark.landing.staged_batch import StagedBatch
    from airflow_provider_sfevents.spark.tables.interface import Ledger
    from airflow_provider_sfevents.spark.tables.ledger import LedgerRow

LEFT_OVERS = "left-overs"
"""Stands among the attempts' folders: files of an attempt that is no more may be in the tables.

Older than every attempt.
"""

_ATTEMPT = re.compile(r"(?P<stamp>\d{8}T\d{12})-[0-9a-f]{32}")


def stamp(created_at: str) -> str:
    """Format a manifest's time for a file name; names sort in the order of their times.

    :raises StagingError: it is no time.
    """
    return staged_at(created_at).strftime("%Y%m%dT%H%M%S%f")


def staged_at(created_at: str) -> datetime:
    """A manifest's time, in UTC.

    :raises StagingError: it is no time.
    """
    try:
        return datetime.fromisoformat(created_at).astimezone(UTC)
    except ValueError as error:
        raise StagingError(f"The manifest's created_at={created_at!r} is no time.") from error


def new_attempt(created_at: str) -> str:
    """Make a unique name for the folder of an attempt."""
    return f"{stamp(created_at)}-{uuid4().hex}"


def older(attempts: Iterable[str], attempt: str) -> list[str]:
    """Select the attempts that land an older form of the batch."""
    return [name for name in attempts if _stamp_of(name) < _stamp_of(attempt)]


def newer(attempts: Iterable[str], attempt: str) -> list[str]:
    """Select the attempts at a newer form of the batch."""
    return [name for name in attempts if _stamp_of(name) > _stamp_of(attempt)]


def twins(attempts: Iterable[str], attempt: str) -> list[str]:
    """Select the attempts at the same form of the batch, this one included."""
    return [name for name in attempts if _stamp_of(name) == _stamp_of(attempt)]


class OtherFormLandedError(Exception):
    """The batch has landed in another form than this attempt's."""

    def __init__(self, landed: LedgerRow) -> None:
        super().__init__(
            f"Batch {landed.batch_id} has landed in its form of {landed.staged_at.isoformat()}."
        )
        self.landed = landed


class Fence:
    """Checks of one attempt before each change that it makes.

    :param root: of the tables.
    """

    def __init__(self, files: Files, root: str, ledger: Ledger, batch: StagedBatch) -> None:
        self._files = files
        self._ledger = ledger
        self._batch = batch
        self.staged_at = staged_at(batch.manifest.created_at)
        self.attempt = new_attempt(batch.manifest.created_at)
        self.attempts = f"{root}/{file_moves.LANDING}/{batch.manifest.batch_id}"
        self.folder = f"{self.attempts}/{self.attempt}"
        self._seen: tuple[object, LedgerView] = None, LedgerView()

    def check(self) -> LedgerView:
        """Check that this form may still land; called right before each effect.

        :returns: what the ledger says of this batch by now.
        :raises OtherFormLandedError: another form of this batch has landed, older or newer.
        :raises NotLandedError: no form has landed, and a newer one is being landed.
        """
        view = self._view()
        if view.row and self.is_other_form(view.row):
            raise OtherFormLandedError(view.row)
        if view.row:
            return view
        if under_way := newer(self.attempts_there(), self.attempt):
            raise self._outdated(f"{self.attempts}/{under_way[0]}")
        return view

    def is_other_form(self, landed: LedgerRow) -> bool:
        """Tell whether the ledger's row is of another manifest than this attempt's."""
        return landed.staged_at != self.staged_at

    def landed(self) -> LedgerRow | None:
        """The batch's row in the ledger."""
        return self._view().row

    def _view(self) -> LedgerView:
        """Read what the ledger says of this batch, anew if the ledger has changed."""
        version = self._ledger.version()
        if version != self._seen[0]:
            self._seen = version, self._ledger.view(self._batch.manifest.batch_id)
        return self._seen[1]

    def attempts_there(self) -> list[str]:
        """List the attempts whose folders exist, this one included."""
        return self._files.names(self.attempts)

    def _outdated(self, newer_one: str) -> NotLandedError:
        manifest = self._batch.manifest
        return NotLandedError(
            f"The manifest {self._batch.url} of batch {manifest.batch_id} is of "
            f"{manifest.created_at}, and the batch is being landed from a newer one; this landing "
            "gives way to it. While neither has landed the newer one counts. If the machine it was "
            "staged on is lost, or if the clock of one of the machines is wrong, delete "
            f"{newer_one} and run the task again."
        )


def _stamp_of(attempt: str) -> str:
    found = _ATTEMPT.fullmatch(attempt)
    return found["stamp"] if found else ""
