from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.source.source_options import SourceOptions
from airflow_provider_sfevents.spark.source.staged_files import StagedFiles
from airflow_provider_sfevents.spark.source.topic_listing import read_topic, sorted_files
from airflow_provider_sfevents.staging.sidecar_files import Origin
from tests.unit.staging.building import manifest

if TYPE_CHECKING:
    from pathlib import Path


def test_files_are_sorted_by_epoch() -> None:
    """Manifests and receipts count for their batch; a folder without a manifest is no batch."""
    found = sorted_files(
        [
            "keepalive_point.json",
            "beginning/position.json",
            "a/origin.json",
            "a/0000000001/manifest.json",
            "a/0000000001/receipt.json",
            "a/0000000001/attempts/0001/part-0000000000.parquet",
            "a/0000000002/leases/0001.json",
            "a/0000000003/.manifest.json.tmp",
            "b/0000000007/manifest.json",
            "c/0000000001/leases/0001.json",
        ]
    )
    assert set(found) == {"a", "b"}
    assert (found["a"].has_origin, found["a"].staged, found["a"].landed) == (True, {1}, {1})
    assert (found["b"].has_origin, found["b"].staged) == (False, {7})


class Area:
    """A staging area with one topic."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "o" / "c" / "t"
        self.options = SourceOptions(folder=str(self.folder))
        self.write(root / "_area.json", json.dumps({"staging_id": "a1"}))

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def begin(self, epoch: str, previous: str, at: str) -> None:
        origin = Origin(epoch=epoch, previous=previous, created_at=at, position="{}")
        self.write(self.folder / epoch / "origin.json", origin.to_json())

    def stage(self, epoch: str, number: int, at: str = "2026-01-01") -> None:
        staged = manifest(number, epoch, created_at=at)
        self.write(self.folder / epoch / f"{number:010d}" / "manifest.json", staged.to_json())

    def epochs(self) -> list[str]:
        return [
            one.name for one in read_topic(StagedFiles.at(str(self.folder)), self.options).epochs
        ]


def test_epochs_follow_the_one_that_they_name(tmp_path: Path) -> None:
    """Epochs are ordered by their previous epoch, whatever their names and times say."""
    area = Area(tmp_path)
    area.begin("z", "", "2026-03-01")
    area.begin("m", "z", "2026-02-01")
    area.begin("a", "m", "2026-01-01")
    for epoch in "zma":
        area.stage(epoch, 1)
    assert area.epochs() == ["z", "m", "a"]


def test_an_epoch_of_a_position_written_by_hand_has_its_place(tmp_path: Path) -> None:
    """An epoch without an origin begins at its oldest batch, and a later one may follow it."""
    area = Area(tmp_path)
    area.stage("hand", 8, "2026-02-01")
    area.begin("b", "hand", "2026-01-01")
    topic = read_topic(StagedFiles.at(str(area.folder)), area.options)
    assert [(one.name, one.first) for one in topic.epochs] == [("hand", 8), ("b", 1)]
    assert topic.unordered == ()


def test_epochs_without_an_order_are_named(tmp_path: Path) -> None:
    """Two epochs with batches that name no previous epoch are reported as unordered."""
    area = Area(tmp_path)
    area.begin("a", "", "2026-01-01")
    area.begin("b", "", "2026-02-01")
    area.stage("a", 1)
    assert read_topic(StagedFiles.at(str(area.folder)), area.options).unordered == ()
    area.stage("b", 1)
    assert read_topic(StagedFiles.at(str(area.folder)), area.options).unordered == ("a", "b")


@pytest.mark.parametrize("name", ["origin.json", "swept.json"])
def test_a_damaged_file_is_an_error(tmp_path: Path, name: str) -> None:
    """An origin or a record of sweeping that cannot be parsed is an error that names the file."""
    area = Area(tmp_path)
    area.begin("a", "", "2026-01-01")
    (area.folder / "a" / name).write_text("{")
    with pytest.raises(StagingError, match=rf"a/{name} "):
        area.epochs()


def test_a_damaged_area_is_an_error(tmp_path: Path) -> None:
    """A staging area whose id cannot be parsed is an error that names the file."""
    area = Area(tmp_path)
    (tmp_path / "_area.json").write_text("{}")
    with pytest.raises(StagingError, match=r"_area.json holds no id of a staging area"):
        area.epochs()
