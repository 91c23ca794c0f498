"""Rules of joining a shared stream, and of its credit."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.pubsub.streaming.stream_position import (
    JoinRequest,
    StreamPosition,
    is_over_asked,
    shared_credit,
)
from airflow_provider_sfevents.replay_point import LATEST, ReplayPoint


def place(start: str, *also: str) -> StreamPosition:
    return StreamPosition(
        JoinRequest(start=ReplayPoint(start), equal_points=tuple(map(ReplayPoint, also)))
    )


def admits(where: StreamPosition, start: str, *also: str) -> bool:
    return where.admits(
        JoinRequest(start=ReplayPoint(start), equal_points=tuple(map(ReplayPoint, also)))
    )


def test_other_names_of_a_newcomer_count_both_ways() -> None:
    """A member that joins by one replay id adds its other ones, which then admit too."""
    where = place("0a", "e1")
    assert admits(where, "0b", "e1")
    where.add_ids_of(
        JoinRequest(start=ReplayPoint("0b"), equal_points=tuple(map(ReplayPoint, ("e1", "0c"))))
    )
    assert admits(where, "0c")


@pytest.mark.parametrize("moment", ["earliest", "latest"])
def test_a_moment_is_no_other_name(moment: str) -> None:
    """`earliest` and `latest` are no equal replay ids: expired events would be skipped silently."""
    assert not admits(place(moment), "0a", moment)
    assert not admits(place("0a", moment), moment)


def test_a_member_from_latest_adds_no_replay_id() -> None:
    """A member that joined at `latest` adds no replay id."""
    where = place("0a")
    where.keepalive_received("0b", owed=1)
    where.add_ids_of(JoinRequest(start=LATEST))
    where.event_received("0c")
    assert not admits(where, "earliest")
    assert place("latest").admits(JoinRequest(start=LATEST))


def test_names_do_not_grow_without_end() -> None:
    """After many keepalives only the start and the newest replay ids admit."""
    where = place("0a")
    for number in range(1000):
        where.keepalive_received(f"{number:04x}", owed=1)
    assert admits(where, "0a")
    assert [admits(where, f"{number:04x}") for number in (0, 935, 936, 999)] == [
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("outstanding", "wants", "where", "too_much"),
    [
        pytest.param(100, [1, 3], "0a", True, id="more than any member wants"),
        pytest.param(3, [1, 3], "0a", False, id="just what is wanted"),
        pytest.param(0, [3], "0a", False, id="nothing requested"),
        pytest.param(100, [0, 0], "0a", False, id="all want nothing"),
        pytest.param(100, [], "0a", False, id="no members"),
        pytest.param(100, [1], "latest", False, id="no replay id"),
    ],
)
def test_when_there_is_too_much_credit(
    outstanding: int, wants: list[int], where: str, too_much: bool
) -> None:
    """A stream is replaced for its credit only if a member stays that wants less."""
    assert is_over_asked(outstanding, wants, ReplayPoint(where)) is too_much
    assert shared_credit(wants) == max(wants, default=0)
