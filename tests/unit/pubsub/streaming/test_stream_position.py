"""Rules of joining a shared stream, and of its credit."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.exceptions import ReplayIdRefusedError, TransportError
from airflow_provider_sfevents.pubsub.streaming.stream_position import (
    JoinRequest,
    StreamPosition,
    ends_member,
    is_over_asked,
    latest_id_for,
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


def test_every_name_since_the_last_event_admits() -> None:
    """The start and each keepalive admit to the same position; no other replay id does."""
    where = place("0a")
    where.keepalive_received("0b", owed=1)
    where.keepalive_received("0c", owed=1)
    assert [admits(where, name) for name in ("0a", "0b", "0c", "0d", "earliest")] == [
        True,
        True,
        True,
        False,
        False,
    ]


def test_an_event_ends_all_names() -> None:
    """After an event only its own replay id and later keepalives admit."""
    where = place("0a", "1a")
    where.keepalive_received("0b", owed=1)
    where.event_received("0c")
    where.keepalive_received("0d", owed=1)
    assert [admits(where, name) for name in ("0a", "1a", "0b", "0c", "0d")] == [
        False,
        False,
        False,
        True,
        True,
    ]


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


def test_earliest_joins_earliest() -> None:
    """Two members at `earliest` share a stream until an event came."""
    where = place("earliest")
    assert admits(where, "earliest")
    where.event_received("0a")
    assert not admits(where, "earliest")


def test_latest_joins_where_the_past_is_over() -> None:
    """`latest` joins a stream that began at `latest` or has caught up with the bus."""
    assert admits(place("latest"), "latest")
    where = place("0a")
    assert not admits(where, "latest")
    where.keepalive_received("0b", owed=0)  # nothing was requested, so more events may follow
    assert not admits(where, "latest")
    where.keepalive_received("0c", owed=1)
    where.event_received("0d")
    assert admits(where, "latest")


def test_who_joined_at_latest_brings_no_name() -> None:
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


def test_news_are_what_the_service_said() -> None:
    """A new member gets the latest replay id of the service, unless it is its own."""
    where = place("0a", "e1")
    request = JoinRequest(start=ReplayPoint("0b"), equal_points=tuple(map(ReplayPoint, ("e1",))))
    assert latest_id_for(request, where) == ""
    where.keepalive_received("0c", owed=1)
    assert latest_id_for(request, where) == "0c"
    assert latest_id_for(JoinRequest(start=ReplayPoint("0c")), where) == ""


def test_only_ones_own_refused_replay_id_is_refused() -> None:
    """A refused replay id ends the member that continues from it; any other error ends all."""
    refused = ReplayIdRefusedError("not known")
    assert ends_member(refused, ReplayPoint("0a"), ReplayPoint("0a"))
    assert not ends_member(refused, ReplayPoint("0a"), ReplayPoint("0b"))
    assert ends_member(TransportError("it broke"), ReplayPoint("0a"), ReplayPoint("0b"))


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
