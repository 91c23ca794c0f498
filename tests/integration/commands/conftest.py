"""`airflow sfevents` in this process, on this process's database, with a staging area."""

from __future__ import annotations

import io
import secrets
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from upath import UPath

from airflow_provider_sfevents.batches.position.position_writes import write_origin
from airflow_provider_sfevents.positions.record import Position, advance
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.area import StagingArea, TopicFolder
from airflow_provider_sfevents.staging.manifest import Manifest, Receipt, Run
from airflow_provider_sfevents.staging.storage import durable_files
from tests.unit.positions.building import ORG, TOPIC, batch_after, begun

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Output of a command; `refused` is its error message."""

    said: str
    refused: str = ""

    @property
    def words(self) -> str:
        """The whole output, whatever the width of the table."""
        return " ".join(f"{self.said} {self.refused}".split())


@dataclass(slots=True, kw_only=True)
class Hands:
    """One consumer of one topic, and commands on it."""

    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    staging: Path
    consumer: str = field(default_factory=lambda: f"load_{secrets.token_hex(4)}")

    @property
    def folder(self) -> TopicFolder:
        return StagingArea(UPath(self.staging)).topic(ORG, self.consumer, TOPIC)

    @property
    def key(self) -> str:
        return variable_key(self.consumer, TOPIC)

    def do(self, group: str, name: str, *words: str, answers: str = "") -> Answer:
        """Run a command on this consumer and topic.

        :param answers: to its questions.
        """
        return self.airflow(
            "sfevents",
            group,
            name,
            self.consumer,
            TOPIC,
            *words,
            "--staging",
            f"file://{self.staging}",
            answers=answers,
        )

    def airflow(self, *words: str, answers: str = "") -> Answer:
        from airflow.cli.cli_parser import get_parser

        self.monkeypatch.setattr("sys.stdin", io.StringIO(answers))
        args = get_parser().parse_args(words)
        self.capsys.readouterr()
        try:
            args.func(args)
        except SystemExit as ended:
            return Answer(said=self.capsys.readouterr().out, refused=str(ended))
        return Answer(said=self.capsys.readouterr().out)

    def keep(self, position: Position) -> Position:
        """Write a position to its Variable, and its epoch's origin to the staging area."""
        from airflow.models.variable import Variable

        own = replace(position, consumer=self.consumer)
        write_origin(self.folder, replace(own, batch_number=0, replay_id="earliest"))
        Variable.set(self.key, own.to_json())
        return own

    def kept(self) -> Position:
        """The position in its Variable."""
        from airflow.models.variable import Variable

        return Position.from_json(Variable.get(self.key), self.key)

    def stage(
        self, position: Position, *, landed: bool = False, run: Run | None = None
    ) -> Manifest:
        """Stage the batch after a position."""
        manifest = batch_after(position, consumer=self.consumer, run=run or Run())
        batch = self.folder.batch(manifest.epoch, manifest.batch_number)
        batch.create_manifest(manifest)
        if landed:
            receipt = Receipt(
                batch_id=manifest.batch_id,
                events=manifest.events,
                tables={"lake/Order__e": manifest.events},
                quarantined=0,
                written_at=manifest.created_at,
            )
            durable_files.replace(batch.folder / layout.RECEIPT, receipt.to_json().encode())
        return manifest

    def commit(self, position: Position, *, run: Run | None = None) -> Position:
        """Stage, land and commit the batch after a position."""
        manifest = self.stage(position, landed=True, run=run)
        return self.keep(advance(position, manifest, datetime.now(UTC).isoformat(), Run()))


@pytest.fixture
def hands(
    airflow_db: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Hands]:
    """A consumer with a name of its own, without a position, and an empty staging area."""
    from airflow.models.variable import Variable

    # A command sets this variable for its process; it is restored for this process.
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "")
    monkeypatch.delenv("_AIRFLOW_PROCESS_CONTEXT")
    hands = Hands(capsys=capsys, monkeypatch=monkeypatch, staging=tmp_path / "staging")
    yield hands
    Variable.delete(hands.key)


@pytest.fixture
def begun_here(hands: Hands) -> Position:
    """A position at batch number 0."""
    return hands.keep(begun())
