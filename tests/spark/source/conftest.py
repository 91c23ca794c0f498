"""A topic's folder in a whole staging area, as the source `sfevents` reads it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Receipt
from airflow_provider_sfevents.staging.sidecar_files import Origin
from tests.spark.conftest import EPOCH, RECEIVED_AT, Staging

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path


class Topic(Staging):
    """Stages batches, lands them as far as receipts go, and begins epochs."""

    def begin(self, epoch: str, previous: str = "") -> None:
        """Record the origin of an epoch."""
        folder = self.folder / epoch
        folder.mkdir(parents=True, exist_ok=True)
        origin = Origin(epoch=epoch, previous=previous, created_at="2026-11-01", position="{}")
        (folder / layout.ORIGIN).write_text(origin.to_json())

    def land(self, batch_number: int, epoch: str = EPOCH) -> None:
        """Write the receipt of a batch, as if it had landed."""
        batch = self.folder / layout.batch_folder(epoch, batch_number)
        manifest = Manifest.from_json((batch / layout.MANIFEST).read_text(), "manifest.json")
        receipt = Receipt(
            batch_id=manifest.batch_id,
            events=manifest.events,
            tables={"t": manifest.events},
            quarantined=0,
            written_at=RECEIVED_AT.isoformat(),
        )
        (batch / layout.RECEIPT).write_text(receipt.to_json())

    def stage(self, numbers: Iterable[int], *, landed: bool = True) -> None:
        """Stage batches of one order each."""
        for number in numbers:
            self.write([self.order(number)], batch_number=number, worth_a_task=False)
            if landed:
                self.land(number)


@pytest.fixture
def org_id() -> str:
    """An org whose name has characters that a path needs in another form."""
    return "00D/x@+é"


@pytest.fixture
def topic(tmp_path: Path, org_id: str) -> Topic:
    """A topic's folder in a staging area of its own."""
    area = tmp_path / "staging"
    area.mkdir()
    (area / layout.AREA).write_text(json.dumps({"staging_id": "a1"}))
    return Topic(area / layout.topic_folder(org_id, "orders", "/event/Order__e"))
