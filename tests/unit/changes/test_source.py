"""Sources of tables, and the admission of batches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    PositionConflictError,
    StagingError,
)
from airflow_provider_sfevents.spark.changes import progress_text
from airflow_provider_sfevents.spark.changes.order import ORIGIN, EventOrder, before_batch
from airflow_provider_sfevents.spark.changes.source import (
    Admission,
    Break,
    ChangeBatch,
    ChangeSource,
    Progress,
    admit,
    advanced,
    check_deletions,
    is_suspect,
    opening,
)
from tests.unit.changes.building import second

SOURCE = ChangeSource(org_id="00D000000000001EAA", consumer="lake", topic="/data/ChangeEvents")
PROGRESS = Progress(
    source=SOURCE,
    generation=2,
    epoch="b",
    batch_number=3,
    end="0c",
    heard_since=second(0),
    high_water=second(100),
    past={"a": 7},
)


def batch(epoch: str = "b", batch_number: int = 4, **given: Any) -> ChangeBatch:
    settled: dict[str, Any] = {
        "source": SOURCE,
        "start": "0c",
        "end": "0d",
        "ended_by": "max_events",
        "opened_at": second(200),
    }
    return ChangeBatch(epoch=epoch, batch_number=batch_number, **(settled | given))


def test_orders_compare_by_epoch_batch_and_place() -> None:
    """Events are ordered by epoch, then batch number, then ordinal."""
    places = [
        ORIGIN,
        EventOrder(1, 1, 0),
        EventOrder(1, 9, 5),
        before_batch(2, 1),
        EventOrder(2, 1, 0),
        EventOrder(2, 1, 10),
    ]
    backwards = places[::-1]
    assert sorted(backwards) == places


@pytest.mark.parametrize(
    ("given", "admission"),
    [
        (batch(), Admission(kind="next", generation=2)),
        (batch(start="0b"), Admission(kind="next", generation=2, joins=False)),
        (batch(losses=("expired",)), Admission(kind="next", generation=2, joins=False)),
        (batch("c", 1), Admission(kind="next", generation=3)),
        (batch("c", 1, start="earliest"), Admission(kind="next", generation=3, joins=False)),
        (batch(batch_number=3), Admission(kind="rerun", generation=0)),
        (batch("a", 7), Admission(kind="rerun", generation=0)),
        (batch("a", 1), Admission(kind="rerun", generation=0)),
    ],
)
def test_batches_come_in_sequence(given: ChangeBatch, admission: Admission) -> None:
    """The next batch, the first of a new epoch, and an applied one are admitted."""
    assert admit(PROGRESS, given) == admission


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (batch(batch_number=5), "next one of this epoch is 4"),
        (batch("c", 2), "next one of this epoch is 1"),
        (batch("a", 8), "never applied, and its epoch is over"),
        (batch(source=replace(SOURCE, consumer="other")), "read by other"),
        (batch(source=replace(SOURCE, topic="/data/AccountChangeEvent")), "AccountChangeEvent"),
        (batch(source=replace(SOURCE, org_id="00D000000000002EAA")), "00D000000000002EAA"),
    ],
)
def test_holes_and_other_sources_are_refused(given: ChangeBatch, says: str) -> None:
    """A missing batch, an ended epoch and another source are refused with the remedy."""
    with pytest.raises(PositionConflictError, match=says):
        admit(PROGRESS, given)


def test_tables_may_begin_with_any_batch() -> None:
    """A first batch is admitted whatever its number, because seeding brings earlier changes."""
    assert admit(None, batch("x", 40)) == Admission(kind="next", generation=1)


def test_a_loss_window_marks_all_entities() -> None:
    """All entities get an entry that begins before the batch's first event."""
    given = batch(losses=("expired",), start="latest")
    opened = opening(PROGRESS, given, admit(PROGRESS, given), (second(150), False))
    assert opened.entry is not None
    assert (opened.entry.since, opened.entry.cause_at) == (before_batch(2, 4), second(150))
    assert (opened.entry.reasons, opened.entry.detail) == (("loss",), "expired")
    assert opened.last_break == Break(order=before_batch(2, 4), high_water=second(100))
    empty = opening(PROGRESS, given, admit(PROGRESS, given), None)
    assert empty.entry is not None
    assert empty.entry.cause_at == second(200)


def test_a_loss_window_counts_even_where_events_come_again() -> None:
    """A loss window marks all entities, even if older events are delivered again."""
    given = batch(losses=("expired",), start="earliest")
    opened = opening(PROGRESS, given, admit(PROGRESS, given), (second(50), True))
    assert opened.entry is not None


def test_a_start_that_overlaps_has_lost_nothing() -> None:
    """A first event that was seen before proves that nothing is missing."""
    given = batch("c", 1, start="earliest")
    opened = opening(PROGRESS, given, admit(PROGRESS, given), (second(50), True))
    assert opened.entry is None
    assert opened.last_break == Break(order=before_batch(3, 1), high_water=second(100))


def test_a_start_that_does_not_join_is_a_loss_until_proved_otherwise() -> None:
    """A batch that does not join counts as a loss unless its first event was seen before."""
    given = batch("c", 1, start="0f")
    opened = opening(PROGRESS, given, admit(PROGRESS, given), (second(150), False))
    assert opened.entry is not None
    assert opened.entry.reasons == ("unjoined",)
    admission = admit(PROGRESS, given)
    silent = opening(PROGRESS, given, admission, None)
    assert (silent.entry, silent.unproven) == (None, True)
    after = advanced(PROGRESS, given, admission, silent, first_at=None, high_water=None)
    following = batch("c", 2, start="0d", end="0e")
    told = opening(after, following, admit(after, following), (second(300), False))
    assert told.entry is not None
    assert (told.entry.since, told.unproven) == (before_batch(3, 2), False)
    assert opening(after, following, admit(after, following), (second(90), True)).entry is None


def test_suspect_is_what_came_after_a_break_and_is_no_newer_than_before_it() -> None:
    """Events after a break are suspect until they catch up with the time before it."""
    broken = Break(order=before_batch(2, 1), high_water=second(100))
    assert is_suspect(broken, EventOrder(2, 1, 0), second(100))
    assert not is_suspect(broken, EventOrder(2, 1, 0), second(101))
    assert not is_suspect(broken, EventOrder(1, 9, 0), second(50))
    assert not is_suspect(None, EventOrder(2, 1, 0), second(50))


def test_progress_moves_with_the_batch() -> None:
    """Progress keeps how far earlier epochs went, and its times never go back."""
    given = batch("c", 1, start="0f", end="10")
    admission = admit(PROGRESS, given)
    opened = opening(PROGRESS, given, admission, (second(50), True))
    after = advanced(PROGRESS, given, admission, opened, first_at=second(50), high_water=second(60))
    assert (after.generation, after.epoch, after.batch_number, after.end) == (3, "c", 1, "10")
    assert after.past == {"a": 7, "b": 3}
    assert (after.high_water, after.heard_since) == (second(100), second(0))
    assert admit(after, batch("b", 3)).kind == "rerun"


def test_after_a_loss_nothing_older_than_the_next_event_is_believed() -> None:
    """After a loss, `heard_since` is the time of the next event."""
    given = replace(batch("b", 4, start="latest", end="10"), losses=("the replay id has expired",))
    admission = admit(PROGRESS, given)
    opened = opening(PROGRESS, given, admission, (second(150), False))
    after = advanced(PROGRESS, given, admission, opened, first_at=second(150), high_water=None)
    assert after.heard_since == second(150)
    heard = replace(PROGRESS, heard_since=second(160))
    later = advanced(heard, given, admission, opened, first_at=second(150), high_water=None)
    assert later.heard_since == second(160)


def test_progress_survives_being_written() -> None:
    """Progress is equal after a round trip; other text and other versions are refused."""
    whole = replace(
        PROGRESS,
        last_break=Break(order=before_batch(2, 1), high_water=None),
        unproven=True,
        is_whole=False,
    )
    for one in (PROGRESS, whole):
        assert progress_text.from_text(progress_text.to_text(one)) == one
    for text in (
        "",
        "{}",
        "[]",
        progress_text.to_text(PROGRESS).replace('"version": 1', '"version": 2'),
    ):
        with pytest.raises(StagingError, match="applied_through"):
            progress_text.from_text(text)


def test_rows_are_not_taken_away_where_others_are_flagged() -> None:
    """A job with other `deletions` than the first batch is refused, and the error names both."""
    check_deletions(None, "flag")
    check_deletions(PROGRESS, "delete")
    flagging = progress_text.from_text(progress_text.to_text(replace(PROGRESS, deletions="flag")))
    check_deletions(flagging, "flag")
    with pytest.raises(ConfigurationError, match=r"'flag'.*'delete'.*a root of their own"):
        check_deletions(flagging, "delete")
