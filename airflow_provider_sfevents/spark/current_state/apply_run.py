"""One run over the tables: their writer, until another run takes its place.

1. A run puts its token into `applied_through` before it reads anything that it decides by.
2. The source of every statement that writes is joined with that token (`Run.merge`, `Run.append`). A
   statement of a run whose token is gone has no source rows, so it changes nothing.
3. After each statement the run looks whether the token is still its own, and gives way otherwise.

So a run that stalls anywhere, also right before a commit, undoes nothing of a later one. Each run has a
folder for the files of many rows; a run that takes the tables removes the folders of earlier ones.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_provider_sfevents.exceptions import PositionConflictError
from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.current_state import state_merges
from airflow_provider_sfevents.spark.current_state.frames import local_rows
from airflow_provider_sfevents.spark.current_state.state_tables import PROGRESS
from airflow_provider_sfevents.spark.tables.merging.conflicts import retry_conflicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.changes.plan import NewEntities
    from airflow_provider_sfevents.spark.current_state.current_state_options import Deletions
    from airflow_provider_sfevents.spark.current_state.state_tables import StateTables

APPLYING = "_applying"


class Run:
    """A run, and what it was asked for.

    :param token: of this run alone.
    :param progress: text of `applied_through` when the run began.
    """

    def __init__(
        self,
        state: StateTables,
        token: str,
        progress: str,
        *,
        deletions: Deletions = "delete",
        new_entities: NewEntities = "unseeded",
        history: bool = False,
    ) -> None:
        self.state = state
        self.folder = f"{state.root}/{APPLYING}/{token}"
        self.progress = progress
        self.deletions = deletions
        self.new_entities = new_entities
        self.history = history
        self._token = token
        self._version = ""

    def take(self) -> None:
        """Become the writer of the tables, which are made unless they are there.

        :raises PositionConflictError: another run has applied a batch since this one began.
        """
        self.state.make_state_tables()
        row = {tables.WRITER: self._token, tables.APPLIED_THROUGH: self.progress or None}
        source = local_rows(self.state.spark, [row], tables.PROGRESS_SQL)
        self.commit(partial(self.state.merge, PROGRESS, source, state_merges.take))
        own = self.folder.rpartition("/")[2]
        for name in self.state.files.names(f"{self.state.root}/{APPLYING}"):
            if name != own:
                self.state.files.remove(f"{self.state.root}/{APPLYING}/{name}")

    def merge(self, table: str, source: DataFrame, statement: Callable[[str, str], str]) -> None:
        """Commit a MERGE, as of `StateTables.merge`, while this run is the writer."""
        self.state.merge(table, source, statement, writer=self._token)

    def append(self, table: str, rows: DataFrame) -> None:
        """Commit new rows, as of `StateTables.append`, while this run is the writer."""
        self.state.append(table, rows, writer=self._token)

    def advance(self, progress: str) -> None:
        """Put `applied_through` forward, while this run is the writer."""
        if progress == self.progress:
            return
        row = {tables.WRITER: self._token, tables.APPLIED_THROUGH: progress}
        source = local_rows(self.state.spark, [row], tables.PROGRESS_SQL)
        self.state.merge(PROGRESS, source, state_merges.advance)
        self.progress = progress

    def commit(self, write: Callable[[], None]) -> None:
        """Write, and again where another job's commit came in between: what is written is the same each time.

        :raises StagingError: there is no end of them.
        :raises PositionConflictError: another run is the writer now.
        """
        try:
            retry_conflicts(
                write,
                f"Other jobs kept committing to the tables of {self.state.root}; what is written so far stays, and counts when the task is run "
                "again. One job at a time may write them.",
            )
        except Exception:
            # The other run has removed the files of this one.
            self.ensure_writer()
            raise
        self.ensure_writer()

    def ensure_writer(self) -> None:
        """:raises PositionConflictError: another run is the writer now."""
        version = self.state.version(PROGRESS)
        if version == self._version:
            return
        if self.state.progress() != (self.progress, self._token):
            raise PositionConflictError(
                f"Another job has begun to write the tables of {self.state.root}: this one gives way. What it has written stays, and is not "
                "written twice. Run the task again when the other is done; one job at a time may write a set of tables."
            )
        self._version = version


@contextmanager
def begun(
    state: StateTables,
    *,
    deletions: Deletions = "delete",
    new_entities: NewEntities = "unseeded",
    history: bool = False,
) -> Iterator[Run]:
    """Begin a run, which does not write yet (`Run.take`)."""
    progress, _ = state.progress()
    run = Run(
        state,
        uuid4().hex,
        progress,
        deletions=deletions,
        new_entities=new_entities,
        history=history,
    )
    state.files.make_folder(run.folder)
    try:
        yield run
    finally:
        state.files.remove(run.folder)
        state.files.remove_if_empty(f"{state.root}/{APPLYING}")
