"""Older batches on the page, from the history in the staging area."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.batches.position.position_writes import write_origin
from airflow_provider_sfevents.positions import history
from airflow_provider_sfevents.positions.activity import Commit
from airflow_provider_sfevents.positions.record import Position, advance
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Run
from tests.integration.ui.test_remedies import fetch_from
from tests.unit.positions.building import ORG, TOPIC, batch_after, begun

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.staging.area import TopicFolder
    from tests.integration.ui.conftest import Page

pytestmark = [
    pytest.mark.airflow,
    # Airflow's API imports a module of Starlette that warns of httpx.
    pytest.mark.filterwarnings("ignore:Using `httpx` with:UserWarning"),
]


def keep(page: Page, folder: Path, count: int) -> TopicFolder:
    """Write a position with so many batches, and their history, as commits do."""
    from airflow.models.variable import Variable

    area = fetch_from(page, folder)
    topic = area.topic(ORG, page.consumer, TOPIC)
    now, by = datetime.now(UTC).isoformat(), Run(dag=page.dag, run="run-1", task="load")
    position = begun(consumer=page.consumer, owner=f"{page.dag}.load")
    write_origin(topic, position)
    for _ in range(count):
        position = advance(position, batch_after(position, last_event_at=now), now, by)
        if history.is_due(position.batch_number):
            history.keep(topic, position)
    position = replace(position, staging_id=area.staging_id())
    Variable.set(variable_key(page.consumer, TOPIC), position.to_json())
    return topic


def asked(page: Page, **more: Any) -> dict[str, str]:
    return {"org_id": ORG, "consumer": page.consumer, "topic": TOPIC, **more}


def read_all(page: Page) -> list[dict[str, Any]]:
    """Read the history as the page does: from what the position's answer names, to the end."""
    place = page.get("/api/position", "op", **asked(page)).json()["older"]
    found = []
    while place:
        answer = page.get("/api/batches", "op", **asked(page, **place)).json()
        assert answer["unseen"] == ""
        found += answer["entries"]
        place = answer["next"]
    return found


def numbers(entries: list[dict[str, Any]]) -> list[int]:
    return [one["batch_number"] for one in entries if "batch_id" in one]


def test_older_batches_are_shown_to_viewers_of_the_position(page: Page, tmp_path: Path) -> None:
    """A hundred at once, by the rights of the position, and only from its own folder."""
    keep(page, tmp_path, 145)
    first = page.get("/api/batches", "viewer", **asked(page)).json()
    assert numbers(first["entries"]) == list(range(125, 25, -1))
    assert first["next"] == {"epoch": "e1", "before": 26}
    [*batches, beginning] = read_all(page)
    assert numbers(batches) == list(range(125, 0, -1))
    assert batches[0]["run"] == "run-1"
    assert (beginning["epoch"], beginning["start"]) == ("e1", "earliest")
    assert page.get("/api/batches", "", **asked(page)).status_code == 404
    for epoch in ("../e1", "e1/..", "e1\n"):
        wrong = page.get("/api/batches", "viewer", **asked(page, epoch=epoch, before="9"))
        assert wrong.status_code == 400
    assert page.get("/api/batches", "viewer", **asked(page, before="-1")).status_code == 422


def test_a_move_begins_a_part_of_the_history(page: Page, tmp_path: Path) -> None:
    """The batches that a move takes out of the record are in the history, before the move."""
    keep(page, tmp_path, 13)
    epoch = page.position().epoch
    assert page.post("/api/position/move", "op", page.seen(start="latest")).status_code == 200
    [move, *batches, beginning] = read_all(page)
    assert (move["start"], move["previous_epoch"]) == ("latest", epoch)
    assert move["previous_batch_number"] == 13
    assert numbers(batches) == list(range(13, 0, -1))
    assert beginning["epoch"] == epoch


def test_moves_without_a_run_in_between_keep_the_history(page: Page, tmp_path: Path) -> None:
    """The beginning of an epoch without a batch is kept when the next one replaces it."""
    keep(page, tmp_path, 13)
    for start in ("latest", "earliest"):
        assert page.post("/api/position/move", "op", page.seen(start=start)).status_code == 200
    [second, first, *batches, _] = read_all(page)
    assert (second["start"], first["start"]) == ("earliest", "latest")
    assert numbers(batches) == list(range(13, 0, -1))


def test_a_move_goes_on_where_nothing_can_be_kept(page: Page, tmp_path: Path) -> None:
    """An epoch whose beginning cannot be written is moved all the same."""
    topic = keep(page, tmp_path, 13)
    assert page.post("/api/position/move", "op", page.seen(start="latest")).status_code == 200
    epoch = page.position().epoch
    (topic.folder / epoch).write_text("a file where the folder should be")
    assert page.post("/api/position/move", "op", page.seen(start="earliest")).status_code == 200
    assert page.position().previous_epoch == epoch


def test_after_a_move_an_area_without_the_batches_has_its_reason(
    page: Page, tmp_path: Path
) -> None:
    """An empty folder at the same address, as on another pod, is not taken for the history."""
    topic = keep(page, tmp_path / "shared", 13)
    assert page.post("/api/position/move", "op", page.seen(start="latest")).status_code == 200
    topic.folder.rename(topic.folder.with_name("elsewhere"))
    answer = page.get("/api/batches", "op", **asked(page)).json()
    assert "has nothing of its epoch e1" in answer["unseen"]
    assert answer["next"] is not None


def test_forgetting_keeps_the_history(page: Page, tmp_path: Path) -> None:
    """The last commits of a forgotten position are added to the history, which stays."""
    topic = keep(page, tmp_path, 13)
    before = page.position()
    assert page.post("/api/position/forget", "op", page.seen()).status_code == 200
    forgotten = topic.forgotten()
    assert forgotten is not None
    assert (forgotten.epochs, forgotten.batch_number) == ([before.epoch], 13)
    end = history.Cursor(epoch=before.epoch, before=14)
    kept = history.older(topic, end, before).entries
    assert [one for one in kept if isinstance(one, Commit)] == [*before.recent[::-1]]


def test_a_history_that_is_not_seen_has_its_reason(page: Page, tmp_path: Path) -> None:
    """Another staging area's history is not shown; a move goes on without it."""
    from airflow.models.variable import Variable

    topic = keep(page, tmp_path, 35)
    elsewhere: Position = replace(page.position(), staging_id="another")
    Variable.set(variable_key(page.consumer, TOPIC), elsewhere.to_json())
    answer = page.get("/api/batches", "viewer", **asked(page)).json()
    assert "does not see the staging area" in answer["unseen"]
    assert (answer["entries"], answer["next"]) == ([], {"epoch": "e1", "before": 16})
    file = topic.folder / layout.history_file("e1", 1)
    before = file.read_text()
    assert page.post("/api/position/move", "op", page.seen(start="latest")).status_code == 200
    assert file.read_text() == before


def test_a_history_that_is_none_is_named(page: Page, tmp_path: Path) -> None:
    """The answer has the file that has to be removed."""
    topic = keep(page, tmp_path, 35)
    (topic.folder / layout.history_file("e1", 1)).write_text("{")
    answer = page.get("/api/batches", "viewer", **asked(page))
    assert answer.status_code == 400
    assert "is no history of batches" in answer.json()["detail"]
