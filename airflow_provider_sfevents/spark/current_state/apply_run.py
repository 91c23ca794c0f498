"""One run over current-state tables: it is their writer until another run takes over.

1. A run writes its token into `applied_through` before it reads anything else.
2. The source of every statement that writes is joined with that token (`writer` of
   `StateTables.merge` and `StateTables.append`). If the run's token has been replaced, the
   statement has no source rows and changes nothing.
3. After each statement the run checks that the token is still its own; otherwise it gives way.

A run that stalls at any point, even right before a commit, therefore undoes nothing of a later run.
Each run has a folder for the files of many rows; a run that takes the tables removes the folders of
earlier runs.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Self
from uuid import uuid4

from airflow_provider_sfevents.exceptions import PositionConflictError
from airflow_provider_sfevents.spark.changes import tables
from airflow_provider_sfevents.spark.current_state import state_merges
from airflow_provider_sfevents.spark.current_state.frames import local_rows
from airflow_provider_sfevents.spark.current_state.state_tables import PROGRESS
from airflow_provider_sfevents.spark.tables.merging.conflicts import retry_conflicts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from pyspark.sql import DataFrame

    from airflow_provider_sfevents.spark.changes.entity import NewEntities
    from airflow_provider_sfevents.spark.current_state.current_state_options import Deletions
    from airflow_provider_sfevents.spark.current_state.state_tables import StateTables

APPLYING = "_applying"


class ApplyRun:
    """A run, its options, and the progress and entities of `applied_through` when it began.

    It does not write before `take`; its files go at the end of the block.
    """

    def __init__(
        self,
        state: StateTables,
        *,
        deletions: Deletions = "delete",
        new_entities: NewEntities = "unseeded",
        history: bool = False,
    ) -> None:
        standing = state.progress()
        self.state = state
        self.token = uuid4().hex
        self.folder = f"{state.root}/{APPLYING}/{self.token}"
        self.progress = standing.text
        self.entities = standing.entities
        self.deletions = deletions
        self.new_entities = new_entities
        self.history = history
        self._version = ""

    def __enter__(self) -> Self:
        self.state.files.make_folder(self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        self.state.files.remove(self.folder)
        self.state.files.remove_if_empty(f"{self.state.root}/{APPLYING}")

    def take(self) -> None:
        """Become the writer of the tables, and make the tables that are missing.

        :raises PositionConflictError: another run has applied a batch since this one began.
        """
        self.state.make_state_tables()
        self.commit(self._take)
        for name in self.state.files.names(f"{self.state.root}/{APPLYING}"):
            if name != self.token:
                self.state.files.remove(f"{self.state.root}/{APPLYING}/{name}")

    def _take(self) -> None:
        before = self.state.version(PROGRESS)
        source = self._row(self.progress, self.entities)
        changed = self.state.merge(PROGRESS, source, state_merges.take, writer="")
        after = self.state.version(PROGRESS)
        if changed and before and int(after) == int(before) + 1:
            # Delta: no other run's commit came after this one.
            self._version = after

    def advance(self, progress: str, entities: Mapping[str, datetime | None]) -> None:
        """Advance `applied_through`, while this run is the writer.

        :param entities: that are new, or have a new time of their full snapshot.
        """
        entities = {**self.entities, **entities}
        if (progress, entities) == (self.progress, self.entities):
            return
        source = self._row(progress, entities)
        changed = self.state.merge(PROGRESS, source, state_merges.advance, writer="")
        self.progress, self.entities = progress, entities
        if changed:
            self._version = self.state.version(PROGRESS)

    def _row(self, progress: str, entities: Mapping[str, datetime | None]) -> DataFrame:
        read = [{"entity_name": one, tables.READ_AT: at} for one, at in sorted(entities.items())]
        row = {
            tables.WRITER: self.token,
            tables.APPLIED_THROUGH: progress or None,
            tables.ENTITIES: read or None,
        }
        return local_rows(self.state.spark, [row], tables.PROGRESS_SQL)

    def commit(self, write: Callable[[], None]) -> None:
        """Commit, and retry after a conflict with another job's commit.

        Each try writes the same rows.

        :raises StagingError: each try met a conflict.
        :raises PositionConflictError: another run is the writer now.
        """
        with self.giving_way():
            retry_conflicts(
                write,
                f"Other jobs kept committing to the tables of {self.state.root}; what is written "
                "so far stays, and counts when the task is run "
                "again. One job at a time may write them.",
            )
        self.ensure_writer()

    @contextmanager
    def giving_way(self) -> Iterator[None]:
        """Give way instead of any error, if another run has removed the files of this one.

        :raises PositionConflictError: another run is the writer now.
        """
        try:
            yield
        except Exception:
            self.ensure_writer()
            raise

    def ensure_writer(self) -> None:
        """Check that this run is still the writer.

        :raises PositionConflictError: another run is the writer now.
        """
        version = self.state.version(PROGRESS)
        if version == self._version:
            return
        found = self.state.progress()
        if (found.text, found.writer) != (self.progress, self.token):
            raise PositionConflictError(
                f"Another job has begun to write the tables of {self.state.root}: this one gives "
                "way. What it has written stays, and is not "
                "written twice. Run the task again when the other is done; one job at a time may "
                "write a set of tables."
            )
        self._version = version
