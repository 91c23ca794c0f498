from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from airflow_provider_sfevents.exceptions import ConfigurationError, PositionConflictError
from airflow_provider_sfevents.positions import record
from airflow_provider_sfevents.positions.activity import RECENT, Commit, Counts, commit_of
from airflow_provider_sfevents.positions.ownership import check_owner
from airflow_provider_sfevents.positions.record import Position, advance, is_past, overlaps
from airflow_provider_sfevents.positions.record_text import Whose
from airflow_provider_sfevents.staging.manifest import LossWindow, Run
from tests.unit.positions.building import FETCH, ORG, TOPIC, URL, batch_after, begun

if TYPE_CHECKING:
    from airflow_provider_sfevents.staging.manifest import Manifest

AT = "2026-01-02T00:00:00+00:00"
COMMIT = Run(dag="load", run="run-1", task="commit", try_number=1)


def advanced(position: Position, times: int) -> Position:
    for _ in range(times):
        position = advance(position, batch_after(position), AT, COMMIT)
    return position


def test_a_position_begins_at_batch_number_0() -> None:
    """A new position has batch number 0, the first run's start, its task, and a new epoch."""
    position = record.begin(
        org_id=ORG,
        instance_url=URL,
        topic="/event/A__e",
        consumer="load",
        start="latest",
        at=AT,
        by=FETCH,
    )
    assert (position.batch_number, position.replay_id, position.committed_at) == (0, "latest", AT)
    assert (position.committed_by, position.owner) == (FETCH, "load.fetch")
    assert len(position.epoch) == 12


def test_a_position_begun_by_a_wait_belongs_to_the_first_committing_task() -> None:
    """A position begun by a wait belongs to the first task that commits."""
    waited = record.begin(
        org_id=ORG,
        instance_url=URL,
        topic=TOPIC,
        consumer="load",
        start="earliest",
        at=AT,
        by=replace(FETCH, task="wait"),
        owns=False,
    )
    assert (waited.owner, waited.committed_by.task) == ("", "wait")
    check_owner(waited, FETCH, "here")
    owned = advance(waited, batch_after(waited), AT, COMMIT)
    assert owned.owner == "load.fetch"
    with pytest.raises(PositionConflictError, match=r"belongs to task load\.fetch"):
        check_owner(owned, replace(FETCH, task="other"), "here")


def test_every_epoch_is_another() -> None:
    """Two positions that are begun have different epochs."""
    epochs = {
        replace(
            begun(),
            epoch=record.begin(
                org_id=ORG,
                instance_url=URL,
                topic="t",
                consumer="c",
                start="earliest",
                at=AT,
                by=FETCH,
            ).epoch,
        ).epoch
        for _ in range(50)
    }
    assert len(epochs) == 50


def test_a_landed_batch_moves_the_position_to_its_end() -> None:
    """A commit takes number, replay id, counts, times and committer from the batch."""
    position = advanced(begun(), 1)
    assert position == replace(
        begun(),
        batch_number=1,
        replay_id=f"{1:020x}",
        batch_id="e1-1",
        events_total=3,
        last_event_at="2026-01-01T00:00:01+00:00",
        committed_at=AT,
        committed_by=COMMIT,
        recent=(commit_of(batch_after(begun()), None, AT, COMMIT),),
        counts=Counts(hour="2026-01-02T00:00+00:00", events_by_hour=(3,)),
    )


def test_counts_add_up_and_the_last_commits_are_remembered() -> None:
    """The total counts all commits' events, and the list keeps the last commits, oldest first."""
    position = advanced(begun(), RECENT + 5)
    assert position.events_total == 3 * (RECENT + 5)
    assert [one.batch_number for one in position.recent] == list(range(6, RECENT + 6))


def test_a_batch_without_event_times_keeps_the_last_known_one() -> None:
    """A commit of a batch without event times keeps the position's last event time."""
    position = advanced(begun(), 1)
    further = advance(position, batch_after(position, last_event_at=""), AT, COMMIT)
    assert further.last_event_at == "2026-01-01T00:00:01+00:00"


@pytest.mark.parametrize(
    ("at", "manifest", "past"),
    [
        (2, {"batch_number": 1, "end": f"{1:020x}"}, True),
        (2, {"batch_number": 1, "end": "ff"}, False),
        (2, {"batch_number": 2, "end": f"{2:020x}"}, False),
        (2, {"batch_number": 1, "end": f"{1:020x}", "epoch": "e0"}, False),
        (RECENT + 5, {"batch_number": 1, "end": "ff"}, True),
    ],
    ids=["earlier", "another copy of it", "the last one", "of another epoch", "too old to know"],
)
def test_a_batch_that_others_were_committed_after_is_past(
    at: int, manifest: dict[str, Any], past: bool
) -> None:
    """A batch before the position's is past, unless a copy of it with another end was committed."""
    position = advanced(begun(), at)
    assert is_past(position, batch_after(begun(), **manifest)) is past


@pytest.mark.parametrize(
    ("last_before", "last_event_at", "overlapping"),
    [
        ((), "", False),
        (("12",), "", True),
        (("12",), "11", True),
        (("12",), "12", True),
        (("12",), "13", False),
        (("12", "15"), "13", True),
        (("",), "13", True),
    ],
    ids=[
        "no loss",
        "no time known",
        "event before",
        "the last event before",
        "event after",
        "lost again",
        "no time before known",
    ],
)
def test_batches_overlap_until_an_event_after_the_last_loss(
    last_before: tuple[str, ...], last_event_at: str, overlapping: bool
) -> None:
    """After a loss window, batches overlap until an event newer than those before it came."""
    losses = tuple(
        LossWindow(after="0a", after_event_at=at, start="earliest", at="99", why="w")
        for at in last_before
    )
    assert overlaps(begun(losses=losses, last_event_at=last_event_at)) is overlapping


def test_loss_windows_are_kept_for_good() -> None:
    """Every later commit keeps the loss windows of position and batch, oldest first."""
    by_hand = LossWindow(after="00", start="earliest", at=AT, why="set by hand")
    expired = LossWindow(after="0a", start="earliest", at=AT, why="expired")
    before = begun(losses=(by_hand,), loss=expired)
    position = advance(
        before, batch_after(before, position_start=before.replay_id, losses=(expired,)), AT, COMMIT
    )
    assert (position.loss, position.losses) == (None, (by_hand, expired))
    assert advanced(position, RECENT + 1).losses == (by_hand, expired)


LATEST = begun(replay_id="latest", initial_replay="latest")
WINDOW = LossWindow(after="0a", start="latest", at=AT, why="expired")


@pytest.mark.parametrize("by", [record.KEEPALIVE, record.EVENT])
def test_latest_is_pinned_once(by: str) -> None:
    """The first replay id replaces `latest`, and a second pin is refused."""
    pinned = record.pin(LATEST, "0a", by=by, staging_id="area-1")
    assert (pinned.start.to_text(), pinned.replay_id, pinned.pinned_by) == ("0a", "0a", by)
    assert (pinned.staging_id, pinned.initial_replay) == ("area-1", "latest")
    assert (LATEST.is_pinned, pinned.is_pinned) == (False, True)
    with pytest.raises(ValueError, match="pinned to 0a"):
        record.pin(pinned, "0b", by=by, staging_id="area-1")


def test_a_loss_window_is_pinned_in_place_of_the_position() -> None:
    """With `replay_fallback="latest"` the loss window is pinned, not the position."""
    lost = record.lose(begun(replay_id="0a", resume_after="0b", resume_after_at=AT), WINDOW)
    assert (lost.start.to_text(), lost.is_pinned, lost.resume_after) == ("latest", False, "")
    pinned = record.pin(lost, "1a", by=record.KEEPALIVE, staging_id="area-1")
    assert (pinned.start.to_text(), pinned.replay_id) == ("1a", "0a")
    assert pinned.loss == replace(WINDOW, pinned="1a")


def test_a_commit_ends_what_was_noted_for_the_batch() -> None:
    """A commit removes pin, keepalive, loss window and staged events from the position."""
    position = record.lose(begun(replay_id="0a"), WINDOW)
    position = record.pin(position, "1a", by=record.EVENT, staging_id="area-1")
    position = record.move_on(position, "1b", AT)
    position = record.note_wait(position, "area-2", 7)
    assert (position.start.to_text(), position.resume_after, position.resume_after_at) == (
        "1a",
        "1b",
        AT,
    )
    assert (position.staged_in, position.staged_events) == ("area-2", 7)
    manifest = batch_after(position, position_start="0a", start="1a")
    committed = advance(position, manifest, AT, COMMIT, "area-3")
    assert committed.staging_id == "area-3"
    cleared = ("pinned_by", "resume_after", "resume_after_at", "staged_in", "staged_events", "loss")
    for name in cleared:
        assert not getattr(committed, name), name
    assert advance(position, manifest, AT, COMMIT).staging_id == "area-1"


def test_a_position_knows_since_which_batch_its_staging_area_is_in_use() -> None:
    """A new staging area counts from the next batch; an unknown one changes nothing."""
    position = begun(replay_id="0a", staging_id="area-1")
    assert position.staging_since == 1
    one = advance(position, batch_after(position), AT, COMMIT, "area-1")
    assert (one.staging_id, one.staging_since) == ("area-1", 1)
    two = advance(one, batch_after(one), AT, COMMIT, "area-2")
    assert (two.staging_id, two.staging_since) == ("area-2", 2)
    three = advance(two, batch_after(two), AT, COMMIT)
    assert (three.staging_id, three.staging_since) == ("area-2", 2)


def test_a_repeated_commit_changes_nothing() -> None:
    """A commit that is repeated changes nothing."""
    position = advanced(begun(), 1)
    assert advance(position, batch_after(begun()), "later", FETCH) == position


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        (batch_after(begun(), batch_number=2), "it has batch number 2, the position 0"),
        (batch_after(begun(), batch_number=0), "it has batch number 0, the position 0"),
        (batch_after(begun(), epoch="e2"), "its epoch is 'e2', not 'e1'"),
        (batch_after(begun(), org_id="00D2"), "its org_id is '00D2'"),
        (batch_after(begun(), topic="/event/B__e"), "its topic is '/event/B__e'"),
        (batch_after(begun(), consumer="other"), "its consumer is 'other'"),
        (
            batch_after(begun(), position_start="0a"),
            "it begins at 0a, and the position is at earliest",
        ),
    ],
    ids=[
        "skips one",
        "goes back",
        "old epoch",
        "other org",
        "other topic",
        "other consumer",
        "moved by hand",
    ],
)
def test_no_other_batch_moves_the_position(manifest: Manifest, why: str) -> None:
    """A position moves only over the batch that follows it."""
    with pytest.raises(PositionConflictError, match=why):
        advance(begun(), manifest, AT, COMMIT)


def test_the_batch_after_a_keepalive_point_moves_the_position() -> None:
    """A position moves over a batch that was subscribed at a later keepalive."""
    assert advance(begun(), batch_after(begun(), start="0a"), AT, COMMIT).batch_number == 1


@given(
    st.builds(
        begun,
        batch_number=st.integers(1, 10**9),
        replay_id=st.binary(min_size=1, max_size=20).map(bytes.hex),
        consumer=st.text(),
        events_total=st.integers(0, 10**12),
        losses=st.lists(
            st.builds(LossWindow, after=st.text(), start=st.text(), at=st.just(AT), why=st.text()),
            max_size=2,
        ).map(tuple),
    )
)
def test_a_position_survives_its_text(position: Position) -> None:
    """A position with any values is equal after a round trip through its text."""
    assert Position.from_json(position.to_json(), "here") == position


@pytest.mark.parametrize("start", ["earliest", "latest", "0a"])
def test_a_first_runs_start_survives_its_text(start: str) -> None:
    """A position with batch number 0 may start at a preset, and is equal after a round trip."""
    assert Position.from_json(begun(replay_id=start).to_json(), "here").start.to_text() == start


COMMITTED = Commit(batch_number=1, batch_id="e1-1", replay_id="0a", events=1, at=AT)
LOSS = {"after": "0a", "start": "earliest", "at": AT, "why": "expired"}
FIELDS = [one.name for one in fields(Position)]


def changed(**changes: Any) -> str:
    return json.dumps(json.loads(advanced(begun(), 1).to_json()) | changes)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is not JSON"),
        ("  ", "'  ' is not JSON"),
        ("0000000000000a", "is not JSON"),
        ("[" * 9999, "is not JSON"),
        ("null", "'null' is not a JSON object"),
        ('"earliest"', "is not a JSON object"),
        ("[]", "is not a JSON object"),
        ("{}", "`version` is None instead of 1"),
        (changed(version="1"), "`version` is '1' instead of 1"),
        ('{"version": 1, "epoch": "e1"}', "it lacks org_id, instance_url"),
        (changed(replayid="0a"), "it has unknown fields replayid"),
        (changed(batch_number="1"), "`batch_number` is '1'"),
        (changed(batch_number=True), "`batch_number` is True"),
        (changed(batch_number=-1), "must be 0 or more"),
        (changed(replay_id=None), "`replay_id` is None"),
        (changed(replay_id=""), "`replay_id` is ''; it must be lower-case hex"),
        (changed(replay_id="earliest"), "`replay_id` is 'earliest'"),
        (changed(replay_id="0A"), "`replay_id` is '0A'"),
        (changed(replay_id="0a0"), "`replay_id` is '0a0'"),
        (changed(replay_id="0x0a"), "`replay_id` is '0x0a'"),
        (changed(replay_id="0a\n"), r"`replay_id` is '0a\\n'"),
        (changed(epoch="../x"), "`epoch` is '../x'"),
        (changed(epoch=""), "`epoch` is ''"),
        (changed(previous_epoch="../y/x1"), "`previous_epoch` is '../y/x1'"),
        (changed(previous_batch_number=-5), "must be 0 or more"),
        (changed(committed_by={"who": 1}), "unexpected keyword argument 'who'"),
        (changed(committed_by={"dag": 3}), "`committed_by.dag` is 3"),
        (changed(recent=[1]), "not iterable"),
        (changed(recent=[["1", *COMMITTED.to_row()[1:]]]), r"`recent\[0\].batch_number` is '1'"),
        (changed(recent=[[1]]), "shorter than"),
        (changed(recent=[replace(COMMITTED, at="").to_row()]), r"`recent\[0\].at` is ''"),
        (changed(losses=[{"after": "0a"}]), "missing 3 required"),
        (changed(losses=[LOSS | {"why": None}]), r"`losses\[0\].why` is None"),
        (changed(loss=LOSS | {"why": None}), r"`loss.why` is None"),
        (changed(loss=LOSS | {"at": "then"}), r"`loss.at` is 'then'; it must be a time"),
        (changed(losses=[LOSS | {"at": "2026-01-01"}]), r"`losses\[0\].at` is '2026-01-01'"),
        *((changed(loss=LOSS | {n: "x"}), f"`loss.{n}` is 'x'; it") for n in ("start", "pinned")),
        (changed(resume_after="0x"), "`resume_after` is '0x'; it must be lower-case hex"),
        (changed(resume_after_at="soon"), "`resume_after_at` is 'soon'; it must be a time"),
        (changed(drained_at="soon"), "`drained_at` is 'soon'; it must be a time"),
        (changed(pinned_by="chance"), "`pinned_by` is 'chance'; it must be keepalive, event"),
        (changed(committed_at="yesterday"), "`committed_at` is 'yesterday'; it must be a time"),
        (changed(committed_at=""), "`committed_at` is ''; it must be a time"),
        (changed(last_event_at="2026-01-01T00:00:00"), "a time with its zone in ISO 8601"),
        (changed(committed_by={"run_after": "soon"}), "`committed_by.run_after` is 'soon'"),
        (changed(committed_at="9999-12-31T23:59:59+00:00"), "must be a time with its zone"),
        (changed(events_total=10**400), "no larger than"),
        (changed(recent=[[10**15 if one == 0 else one for one in COMMITTED.to_row()]]), "is 10000"),
        (changed(owner="\ud800"), "half of a pair of surrogates"),
        (changed(counts={**asdict(Counts()), "tables": []}), "must be objects"),
        (changed(counts={**asdict(Counts()), "tables": {"a": 3}}), "must be objects"),
        (changed(counts={**asdict(Counts()), "extra_deliveries": None}), "must be objects"),
        *((changed(**{name: 3.5}), f"`{name}` is 3.5") for name in FIELDS),
        (begun(replay_id="now").to_json(), "or earliest or latest"),
    ],
)
def test_what_is_no_position_is_refused(text: str, why: str) -> None:
    """A value that is no position is refused, with the store's name, the value and the remedy."""
    with pytest.raises(
        ConfigurationError, match=rf"^Variable 'x' does not hold a position: .*{why}.*Correct it"
    ) as refused:
        Position.from_json(text, "Variable 'x'", Whose(consumer="load", topic=TOPIC))
    assert f"`airflow sfevents position set load {TOPIC} <replay id>`" in str(refused.value)
    assert f"`airflow sfevents position forget load {TOPIC}`" in str(refused.value)


def test_a_newer_releases_position_is_refused() -> None:
    """A record of a newer release is refused, because this release may misread it."""
    with pytest.raises(
        ConfigurationError, match=r"^Variable 'x' is a position of version 2, .*Upgrade"
    ):
        Position.from_json(changed(version=2), "Variable 'x'")


def test_a_long_text_is_not_repeated_whole() -> None:
    """An error shows only the beginning of a long foreign value."""
    with pytest.raises(ConfigurationError) as caught:
        Position.from_json("x" * 10_000, "here")
    assert len(str(caught.value)) < 600


def test_a_position_set_by_hand_belongs_to_the_next_fetching_task() -> None:
    """A position without an owner gets the task of the first batch as owner."""
    position = begun(owner="")
    assert advance(position, batch_after(position), AT, COMMIT).owner == "load.fetch"
