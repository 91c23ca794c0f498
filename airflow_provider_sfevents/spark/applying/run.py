"""One run over the tables: it has a folder of its own, and gives way where another run has begun since."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from airflow_provider_sfevents.exceptions import PositionConflict
from airflow_provider_sfevents.spark.applying.places import PROGRESS
from airflow_provider_sfevents.spark.landing_steps import no_step

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.spark.applying.ordering import Deletions
    from airflow_provider_sfevents.spark.applying.places import StateTables
    from airflow_provider_sfevents.spark.changes.plan import NewEntities
    from airflow_provider_sfevents.spark.landing_steps import Step

APPLYING = "_applying"


@dataclass(frozen=True, kw_only=True)
class Run:
    """What a run has to know.

    :param folder: URL of its own.
    :param progress: what `applied_through` said when it began; `version` of that table, from before it was read.
    """

    state: StateTables
    folder: str
    progress: str
    version: str
    deletions: Deletions = "delete"
    new_entities: NewEntities = "unseeded"
    history: bool = False
    step: Step = no_step

    def fence(self) -> None:
        """:raises PositionConflict: another run has begun."""
        if not self.state.files.exists(self.folder):
            raise PositionConflict(
                f"Another job has begun to write the tables of {self.state.root}: this one gives way. What it has written stays, and is not "
                "written twice. Run the task again when the other is done; one job at a time may write a set of tables."
            )

    def check_progress(self) -> None:
        """:raises PositionConflict: another run has come to its end since."""
        if self.version == self.state.version(PROGRESS):
            return
        if self.state.progress_text() != self.progress:
            raise PositionConflict(
                f"Another job has applied a batch to the tables of {self.state.root} since this one began; this one gives way. Run the task "
                "again: what has been applied is not applied twice."
            )


@contextmanager
def begun(
    state: StateTables,
    *,
    deletions: Deletions = "delete",
    new_entities: NewEntities = "unseeded",
    history: bool = False,
    step: Step = no_step,
) -> Iterator[Run]:
    """Begin a run: folders of others go, which ends those that are still at work."""
    folder = f"{state.root}/{APPLYING}/{uuid4().hex}"
    for name in state.files.names(f"{state.root}/{APPLYING}"):
        state.files.remove(f"{state.root}/{APPLYING}/{name}")
    state.files.make_folder(folder)
    try:
        yield Run(
            state=state,
            folder=folder,
            version=state.version(PROGRESS),
            progress=state.progress_text(),
            deletions=deletions,
            new_entities=new_entities,
            history=history,
            step=step,
        )
    finally:
        state.files.remove(folder)
        state.files.remove_if_empty(f"{state.root}/{APPLYING}")
