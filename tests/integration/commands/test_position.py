from __future__ import annotations

import json
import logging
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from airflow.models.connection import Connection
from airflow.models.variable import Variable
from airflow.utils.session import create_session
from sqlalchemy import delete

from airflow_provider_sfevents.emulator import Emulator
from airflow_provider_sfevents.positions import history
from airflow_provider_sfevents.staging import leases
from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.manifest import LossWindow, Run
from tests.unit.positions.building import ORG, TOPIC, URL, begun

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record import Position
    from tests.integration.commands.conftest import Hands

pytestmark = pytest.mark.airflow


def test_a_position_is_shown_with_what_comes_next(hands: Hands, begun_here: Position) -> None:
    """A position is a table with a sentence on the next run, or one object for programs."""
    hands.commit(begun_here)
    table = hands.do("position", "show")
    assert "e1-1: 3 events to 00000000000000000001" in table.words
    assert "The next run fetches batch e1-2: the events after 00000000000000000001." in table.words
    [shown] = json.loads(hands.do("position", "show", "-o", "json").said)
    assert (shown["epoch"], shown["batch_number"], shown["newest_receipt"]) == ("e1", 1, "e1-1")
    assert shown["next_run"] in table.words
    assert shown["warning"] is None
    [commit] = shown["recent"]
    assert (commit["events"], shown["events_total"]) == (3, 3)
    assert (shown["losses"], shown["keepalive_point"]) == ([], None)
    assert isinstance(shown["age_hours"], float)


def test_an_old_position_is_warned_of(hands: Hands) -> None:
    """A position near the bus's 72 hours, or beyond them, is shown with a warning."""
    hands.keep(begun(batch_number=1, replay_id="0a"))
    assert "may have expired: the bus keeps events for 72 h" in hands.do("position", "show").words


def test_all_positions_are_listed_and_what_is_none_is_named(
    hands: Hands, begun_here: Position
) -> None:
    """Without arguments all records named like positions are listed, unreadable ones last."""
    Variable.set("sfevents.zz_not_one.x", "rubbish")
    try:
        rows = json.loads(hands.airflow("sfevents", "position", "show", "-o", "json").said)
    finally:
        Variable.delete("sfevents.zz_not_one.x")
    mine = [row for row in rows if row["consumer"] == hands.consumer]
    assert [(row["topic"], row["replay_id"], row["age_hours"], row["problem"]) for row in mine] == [
        (TOPIC, "earliest", None, "")
    ]
    assert "'rubb...' is not JSON" in rows[-1]["problem"]


def test_a_position_that_is_too_old_fails_the_command(hands: Hands) -> None:
    """`--fail-older-than` ends the command with name and age of each older position."""
    kept = hands.keep(begun(batch_number=1, replay_id="0a"))
    everything = ("sfevents", "position", "show", hands.consumer, "--fail-older-than")
    asked = [
        hands.do("position", "show", "--fail-older-than", "48"),
        hands.airflow(*everything, "48"),
    ]
    for one in asked:
        assert one.refused.startswith(f"Older than 48 hours: {hands.consumer} {kept.topic} (")
        assert "0a" in one.said
    assert hands.airflow(*everything, "1e6").refused == ""


def test_a_keepalive_makes_a_listed_position_young(hands: Hands) -> None:
    """With a staging area, the list's ages count from the last keepalive."""
    kept = hands.keep(begun(batch_number=1, replay_id="0a"))
    at = datetime.now(UTC).isoformat()
    hands.folder.write_keepalive_point(
        KeepalivePoint(epoch=kept.epoch, batch_number=1, replay_id="0b", seen_at=at, after="")
    )
    words = ("sfevents", "position", "show", hands.consumer, "-o", "json")
    [row] = json.loads(hands.airflow(*words, "--staging", f"file://{hands.staging}").said)
    assert row["age_hours"] < 1


def test_set_begins_an_epoch_elsewhere(hands: Hands, begun_here: Position) -> None:
    """`set` begins an epoch with the owner, a loss window, an origin, and a history before it."""
    stood = hands.commit(begun_here)
    done = hands.do("position", "set", "latest", "--yes")
    assert not done.refused
    assert f"records a loss window, from {stood.replay_id} to latest" in done.words
    now = hands.kept()
    assert (now.batch_number, now.replay_id, now.owner, now.org_id) == (
        0,
        "latest",
        stood.owner,
        ORG,
    )
    assert now.epoch != stood.epoch
    assert [(one.after, one.start) for one in now.losses] == [(stood.replay_id, "latest")]
    assert [origin.epoch for origin in hands.folder.origins()] == ["e1", now.epoch]
    assert (now.previous_epoch, now.previous_batch_number) == ("e1", 1)
    moved = history.older(hands.folder, history.Cursor(epoch=now.epoch, before=1), now)
    assert stood.recent[-1] in moved.entries
    assert (
        f"The next run fetches batch {now.epoch}-1: events published after it has subscribed."
        in done.words
    )


def test_loss_windows_are_acknowledged(hands: Hands, begun_here: Position) -> None:
    """`acknowledge` names the windows and keeps them; a move by hand keeps what it wrote."""
    stood = hands.commit(begun_here)
    assert "no loss window" in hands.do("position", "acknowledge", "--yes").words
    assert not hands.do("position", "set", "latest", "--yes").refused
    begun = hands.kept()
    done = hands.do("position", "acknowledge", "--yes")
    assert f"Events after {stood.replay_id} may have been missed" in done.words
    known = hands.kept()
    assert known == replace(begun, losses_acknowledged=begun.losses[-1].at)
    assert not hands.do("position", "set", "earliest", "--yes").refused
    moved = hands.kept()
    assert (len(moved.losses), moved.losses_acknowledged) == (2, known.losses_acknowledged)


def test_a_staged_batch_does_not_keep_from_acknowledging(
    hands: Hands, begun_here: Position
) -> None:
    """The position stays where it is, so nothing is left behind."""
    window = LossWindow(after="0a", start="earliest", at="2026-01-01T00:00:00+00:00", why="why")
    kept = hands.keep(replace(begun_here, losses=(window,)))
    hands.stage(kept)
    assert "1 loss window acknowledged" in hands.do("position", "acknowledge", "--yes").words
    assert hands.kept() == replace(kept, losses_acknowledged=window.at)


def test_loss_windows_of_a_position_elsewhere_are_not_acknowledged(
    hands: Hands, begun_here: Position
) -> None:
    """`acknowledge` refuses a store that has no position, so that the alert is not forgotten."""
    hands.commit(begun_here)
    refused = hands.do("position", "acknowledge", "--yes", "--position-store", "asset").refused
    assert "does not exist, so no loss window was acknowledged" in refused


def test_set_asks_first(hands: Hands, begun_here: Position) -> None:
    """Answering no changes nothing."""
    refused = hands.do("position", "set", "latest", answers="n\n")
    assert "is published before that and has not landed is skipped" in refused.words
    assert refused.refused == "Nothing was changed."
    assert hands.kept() == begun_here


@pytest.mark.parametrize(
    ("option", "transport"), [((), "pubsub"), (("--transport", "streaming"), "streaming")]
)
def test_a_staged_batch_is_not_left_behind_by_accident(
    hands: Hands, begun_here: Position, option: tuple[str, ...], transport: str
) -> None:
    """The error for a staged batch names the command that leaves it behind, which works."""
    hands.stage(begun_here)
    refused = hands.do("position", "set", "latest", "-y", *option)
    assert "Batch e1-1 is staged (3 events, delivered and counted)" in refused.refused
    command = refused.refused.partition("leave it behind: airflow ")[2]
    assert command.startswith(f"sfevents position set {hands.consumer} {TOPIC} latest ")
    assert hands.kept() == begun_here
    assert not hands.airflow(*shlex.split(command), "-y").refused
    assert (hands.kept().replay_id, hands.kept().transport) == ("latest", transport)


@pytest.mark.parametrize("words", [("set", "latest"), ("forget",)])
def test_a_batch_at_work_is_not_disturbed(
    hands: Hands, begun_here: Position, words: tuple[str, ...]
) -> None:
    """While a task works on the next batch, the position cannot be changed."""
    holder = LeaseHolder.here(
        Run(dag="load", run="run-7", task="fetch"), "2026-01-01T00:00:00+00:00"
    )
    with hands.folder.batch("e1", 1).take_lease(holder):
        refused = hands.do("position", *words, "-y")
    assert "is held by task load.fetch of run run-7" in refused.refused
    assert f"airflow sfevents batches release {hands.consumer} {TOPIC} e1-1" in refused.refused
    assert hands.kept() == begun_here
    assert hands.folder.forgotten() is None


@pytest.mark.parametrize("words", [("set", "latest"), ("forget",), ("acknowledge",)])
def test_a_task_that_takes_the_batch_during_the_question_is_not_disturbed(
    hands: Hands,
    begun_here: Position,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
) -> None:
    """An answer that comes after a task has taken the batch over changes nothing."""
    window = LossWindow(after="0a", start="earliest", at="2026-01-01T00:00:00+00:00", why="why")
    kept = hands.keep(replace(begun_here, losses=(window,)))
    batch = hands.folder.batch("e1", 1)
    run = Run(dag="load", run="run-7", task="fetch")
    taken = []

    def answered_late(_: str) -> bool:
        leases.let_go(batch.folder, 1)
        taken.append(batch.take_lease(LeaseHolder.here(run, "2026-01-01T00:00:00+00:00")))
        return True

    monkeypatch.setattr("airflow_provider_sfevents.commands.output.ask_yesno", answered_late)
    refused = hands.do("position", *words)
    taken[0].release()
    assert "was taken over by task load.fetch of run run-7" in refused.refused
    assert hands.kept() == kept
    assert hands.folder.forgotten() is None


def test_a_first_run_that_begins_during_the_question_is_not_disturbed(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that comes after a task has begun the position changes nothing."""
    found = []

    def answered_late(_: str) -> bool:
        found.append(hands.keep(begun()))
        return True

    monkeypatch.setattr("airflow_provider_sfevents.commands.output.ask_yesno", answered_late)
    with Emulator(sample=True) as bus:
        monkeypatch.setenv("AIRFLOW_CONN_SFEVENTS_DEFAULT", json.dumps(bus.connection()))
        refused = hands.do("position", "set", "latest")
    assert "was moved by another process just now. Nothing was changed" in refused.refused
    assert [hands.kept()] == found


def test_rubbish_is_replaced_but_a_newer_release_is_respected(hands: Hands) -> None:
    """`set` replaces a broken record, but not one of a newer release."""
    hands.keep(begun())
    Variable.set(hands.key, "rubbish")
    shown = hands.do("position", "show").refused
    assert "does not hold a position" in shown
    assert f"Or replace it, such as by: airflow sfevents position set {hands.consumer}" in shown
    done = hands.do("position", "set", "00000000000000ff0000", answers="y\n")
    assert "It is replaced:" in done.words
    kept = hands.kept()
    assert (kept.replay_id, kept.org_id, kept.owner) == ("00000000000000ff0000", ORG, "load.fetch")
    Variable.set(hands.key, json.dumps({"version": 99}))
    refused = hands.do("position", "set", "00000000000000ff0000", "-y")
    assert "written by a newer release" in refused.refused
    assert "Or replace it" not in refused.refused
    assert json.loads(Variable.get(hands.key)) == {"version": 99}


def test_a_replay_id_of_an_impossible_length_gives_nothing_up(
    hands: Hands, begun_here: Position
) -> None:
    """A replay id of a wrong length is refused, and the position stays."""
    refused = hands.do("position", "set", "00ff", "-y")
    assert "it has 2 bytes, and theirs have 8 or 10" in refused.refused
    assert hands.kept() == begun_here


def test_a_shadowed_position_is_not_taken_for_written(
    hands: Hands, begun_here: Position, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`set` fails if an environment variable is read in place of the Variable."""
    monkeypatch.setenv(f"AIRFLOW_VAR_{hands.key.upper()}", begun_here.to_json())
    refused = hands.do("position", "set", "latest", "-y")
    assert "reads something else right after it was written" in refused.refused
    assert f"AIRFLOW_VAR_{hands.key.upper()}" in refused.refused


def test_a_wrong_staging_area_is_noticed(hands: Hands) -> None:
    """A position without batches in the default staging area needs `--staging`."""
    Variable.set(hands.key, begun().to_json())
    refused = hands.airflow("sfevents", "position", "set", hands.consumer, TOPIC, "latest", "-y")
    assert "Give the task's staging area by `--staging`" in refused.refused


def test_forgetting_makes_the_next_run_a_first_run(hands: Hands, begun_here: Position) -> None:
    """After `forget` the next run is a first run, although batches have landed before."""
    hands.commit(begun_here)
    done = hands.do("position", "forget", "--yes")
    assert not done.refused
    assert Variable.get(hands.key, default_var=None) is None
    forgotten = hands.folder.forgotten()
    assert forgotten is not None
    assert forgotten.epochs[-1] == begun_here.epoch
    assert "The next run is a first run" in done.words
    assert "The next run is a first run" in hands.do("position", "show").words


def test_a_lost_position_is_told_from_a_first_run(hands: Hands, begun_here: Position) -> None:
    """A deleted position is reported as lost, and both remedies work without a login."""
    hands.commit(begun_here)
    Variable.delete(hands.key)
    lost = hands.do("position", "show").words
    assert "The next run is refused" in lost
    assert f"airflow sfevents position forget {hands.consumer} {TOPIC}" in lost
    for _ in range(2):
        assert not hands.do("position", "forget", "-y").refused
        forgotten = hands.folder.forgotten()
        assert forgotten is not None
        assert (forgotten.epochs[-1], forgotten.batch_number) == (begun_here.epoch, 1)
    assert "The next run is a first run" in hands.do("position", "show").words


def test_the_first_position_gets_its_org_from_the_connection(
    hands: Hands, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a position, org and instance come from a single login."""
    with Emulator(sample=True) as bus:
        monkeypatch.setenv("AIRFLOW_CONN_SFEVENTS_DEFAULT", json.dumps(bus.connection()))
        with caplog.at_level(logging.INFO):
            done = hands.do("position", "set", "latest", "-y")
        assert not done.refused
        assert caplog.text.count("Logged in to") == 1
        assert "this is its first position" in done.words
        kept = hands.kept()
        assert (kept.org_id, kept.replay_id, kept.losses) == (bus.org.org_id, "latest", ())
        assert kept.instance_url.startswith("http")


@pytest.mark.parametrize("consumer", ["lo ad", "../load", "load=1", ""])
def test_a_consumer_that_no_task_can_have_gets_no_position(hands: Hands, consumer: str) -> None:
    """The characters of a consumer are checked as those of a task's `consumer`."""
    words = ("sfevents", "position", "set", consumer, TOPIC, "latest", "-y")
    refused = hands.airflow(*words, "--staging", f"file://{hands.staging}").refused
    assert f"consumer={consumer!r} cannot name a position" in refused


def test_the_first_position_needs_a_topic_that_exists(
    hands: Hands, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic with a slip in its name is refused, and no position is written."""
    with Emulator() as bus:
        monkeypatch.setenv("AIRFLOW_CONN_SFEVENTS_DEFAULT", json.dumps(bus.connection()))
        refused = hands.do("position", "set", "latest", "-y").refused
    assert TOPIC in refused
    assert f"Variable '{hands.key}' does not exist" in hands.do("position", "show").refused


def test_a_position_of_another_org_is_replaced_by_the_connections(
    hands: Hands, begun_here: Position
) -> None:
    """`--conn-id` moves a consumer to the org of that connection in Airflow's database."""
    assert begun_here.instance_url == URL
    conn_id = f"org_of_{hands.consumer}"
    with Emulator(sample=True) as bus:
        with create_session() as session:
            session.add(Connection(conn_id=conn_id, **bus.connection()))
        try:
            done = hands.do("position", "set", "earliest", "-y", "--conn-id", conn_id)
        finally:
            with create_session() as session:
                session.execute(delete(Connection).where(Connection.conn_id == conn_id))
        assert not done.refused
        assert hands.kept().org_id == bus.org.org_id


def test_no_answer_changes_nothing(hands: Hands, begun_here: Position) -> None:
    """Without `--yes` and without input nothing is changed, with a message."""
    assert "there was no answer" in hands.do("position", "forget").refused
    assert hands.kept() == begun_here


def test_an_unknown_consumer(hands: Hands) -> None:
    """An unknown consumer is an error that names the searched stores; `show` never logs in."""
    nothing = hands.do("position", "show").refused
    assert f"Variable '{hands.key}' does not exist" in nothing
    assert "`--position-store` and `--staging`" in nothing


def test_a_lost_position_is_put_back_without_a_login(hands: Hands, begun_here: Position) -> None:
    """A lost position is set with org, instance and owner of its epoch, which it follows on."""
    at = hands.commit(begun_here)
    Variable.delete(hands.key)
    lost = hands.do("position", "show").words
    assert f"`airflow sfevents position set {hands.consumer} {TOPIC} {at.replay_id}`" in lost
    assert not hands.do("position", "set", at.replay_id, "-y").refused
    kept = hands.kept()
    assert (kept.org_id, kept.instance_url, kept.owner) == (ORG, URL, "load.fetch")
    assert (kept.previous_epoch, kept.previous_batch_number) == (begun_here.epoch, 1)
