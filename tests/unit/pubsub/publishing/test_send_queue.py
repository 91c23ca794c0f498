"""Rules of the send queue: next request, meaning of answers, repetitions."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.pubsub.publishing.event_encoder import OutgoingEvent
from airflow_provider_sfevents.pubsub.publishing.send_queue import (
    FIRST_WAIT_SECONDS,
    MAX_REQUESTS,
    MAX_TRIES,
    PublishAnswer,
    PublishVerdict,
    SendQueue,
    judge,
)


def request(*numbers: int) -> list[OutgoingEvent]:
    return [OutgoingEvent(number=number, id=f"e{number}", payload=b"") for number in numbers]


def accepted(*numbers: int) -> list[PublishAnswer]:
    return [PublishAnswer(event_id=f"e{number}", replay_id=bytes([number])) for number in numbers]


def refused(*numbers: int, error: str = "not now") -> list[PublishAnswer]:
    return [PublishAnswer(event_id=f"e{number}", error=error) for number in numbers]


def filled(*requests: list[OutgoingEvent]) -> SendQueue:
    """A queue with all its requests under way."""
    outbox = SendQueue()
    for one in requests:
        outbox.add(one)
        assert outbox.give(0.0) == one
    return outbox


@pytest.mark.parametrize(
    ("error", "tries", "verdict"),
    [
        ("", 1, PublishVerdict.ACCEPTED),
        ("not now", 1, PublishVerdict.AGAIN),
        ("not now", MAX_TRIES - 1, PublishVerdict.AGAIN),
        ("not now", MAX_TRIES, PublishVerdict.REFUSED),
        ("LIMIT_EXCEEDED: no more", 1, PublishVerdict.LIMIT),
        ("limit_exceeded", MAX_TRIES, PublishVerdict.LIMIT),
    ],
)
def test_what_an_answer_means(error: str, tries: int, verdict: PublishVerdict) -> None:
    """A refusal is final after the last try, and at once if an allowance is used up."""
    assert judge(error, tries) is verdict


def test_so_many_requests_are_under_way_at_most() -> None:
    """The next request is due only after one under way is answered completely."""
    outbox = filled(*(request(2 * n, 2 * n + 1) for n in range(MAX_REQUESTS)))
    assert not outbox.takes_more
    outbox.add(request(90))
    assert outbox.give(0.0) is None
    outbox.answered(accepted(0), 0.0)
    assert outbox.give(0.0) is None
    outbox.answered(accepted(1), 0.0)
    assert outbox.give(0.0) == request(90)


def test_answers_are_matched_by_id() -> None:
    """Answers are matched by event id, in any order and across requests."""
    outbox = filled(request(1, 2), request(3))
    settled = outbox.answered([*accepted(3, 1), *refused(2, error="LIMIT_EXCEEDED")], 0.0)
    assert [(one.number, one.event_id, one.replay_id) for one in settled] == [
        (3, "e3", b"\3"),
        (1, "e1", b"\1"),
    ]
    assert outbox.limit == "LIMIT_EXCEEDED"


def test_what_was_never_asked_is_left_out() -> None:
    """An answer to an unknown event, or a second one to an event, settles nothing."""
    outbox = filled(request(1))
    assert outbox.answered(accepted(7), 0.0) == []
    assert len(outbox.answered(accepted(1, 1), 0.0)) == 1
    assert outbox.is_done


def test_what_is_refused_goes_again_later_and_less_soon_each_time() -> None:
    """A refused event is sent again alone, under its id, with growing pauses."""
    outbox = filled(request(1, 2, 3))
    assert [one.number for one in outbox.answered([*accepted(1, 3), *refused(2)], 10.0)] == [1, 3]
    assert outbox.due_at == 10.0 + FIRST_WAIT_SECONDS
    assert outbox.give(10.0) is None
    assert outbox.give(11.0) == request(2)
    outbox.answered(refused(2), 11.0)
    assert outbox.due_at == 11.0 + 2 * FIRST_WAIT_SECONDS
    assert outbox.give(13.0) == request(2)
    [last] = outbox.answered(refused(2, error="never"), 13.0)
    assert (last.number, last.replay_id, last.error) == (2, b"", "never")
    assert (outbox.is_done, outbox.repeated) == (True, 2)


def test_more_is_given_out_while_a_refused_event_waits() -> None:
    """Other requests are sent while a refused event waits."""
    outbox = filled(request(1))
    outbox.answered(refused(1), 0.0)
    outbox.add(request(2))
    assert outbox.give(0.0) == request(2)
    assert outbox.give(1.0) == request(1)


def test_what_is_unanswered_when_a_stream_ends_goes_again_first() -> None:
    """Unanswered events of an ended transport are sent again in order, before new ones."""
    outbox = filled(request(1, 2), request(3, 4))
    outbox.add(request(5))
    outbox.answered(accepted(1, 4), 0.0)
    assert outbox.lost() == 1
    given = [outbox.give(0.0) for _ in range(3)]
    assert given == [request(2), request(3), request(5)]
    assert outbox.repeated == 2


def test_events_are_in_doubt_until_they_are_answered() -> None:
    """Events of a broken transport may be on the bus, unless the service certainly took none."""
    outbox = filled(request(1, 2), request(3))
    outbox.add(request(4))
    assert (outbox.uncertain, outbox.unsent) == ({1: "e1", 2: "e2", 3: "e3"}, {4: "e4"})
    outbox.lost(took_nothing=True)
    assert (outbox.uncertain, list(outbox.unsent)) == ({}, [1, 2, 3, 4])
    assert outbox.give(0.0) == request(1, 2)
    outbox.answered(accepted(1), 0.0)
    outbox.lost()
    assert (outbox.uncertain, list(outbox.unsent)) == ({2: "e2"}, [3, 4])
    assert outbox.give(0.0) == request(2)
    outbox.lost(took_nothing=True)
    assert outbox.uncertain == {2: "e2"}, "the first time, the service may have taken it"
    assert outbox.give(0.0) == request(2)
    outbox.answered(refused(2), 0.0)
    assert (outbox.uncertain, sorted(outbox.unsent)) == ({}, [2, 3, 4])


def test_how_often_an_event_was_lost_is_counted() -> None:
    """Ended transports are counted for each event; an answer resets the count."""
    outbox = filled(request(1), request(2))
    assert outbox.lost() == 1
    assert [outbox.give(0.0), outbox.give(0.0)] == [request(1), request(2)]
    outbox.answered(accepted(2), 0.0)
    assert outbox.lost() == 2
    outbox.give(0.0)
    outbox.answered(refused(1), 0.0)
    assert outbox.lost() == 0


def test_nothing_is_given_out_after_the_limit() -> None:
    """After a used-up allowance nothing is sent, and requests under way are still answered."""
    outbox = filled(request(1), request(2))
    outbox.add(request(3))
    outbox.answered(refused(1, error="LIMIT_EXCEEDED"), 0.0)
    assert (outbox.takes_more, outbox.give(99.0), outbox.is_done) == (False, None, False)
    assert len(outbox.answered(accepted(2), 0.0)) == 1
    assert outbox.is_done
