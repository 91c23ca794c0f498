"""Rules of a Bayeux session, with made-up answers."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings, strategies as st

from airflow_provider_sfevents.streaming.bayeux_session import BayeuxSession

LOST = {
    "channel": "/meta/connect",
    "error": "403::Unknown client",
    "advice": {"interval": 0, "reconnect": "handshake"},
    "successful": False,
}


def answered(session: BayeuxSession, *messages: dict[str, Any]) -> list[Any]:
    """Let the session have these messages; the caller is given all of their events."""
    events = session.take([(message, "") for message in messages], session.client_id)
    for event in events:
        session.given(event)
    return [event.replay_id for event in events]


def opened(session: BayeuxSession, client_id: str = "c1") -> BayeuxSession:
    """A session after its handshake and its subscriptions."""
    answered(session, {"channel": "/meta/handshake", "clientId": client_id, "successful": True})
    for asked in session.to_subscribe():
        answered(session, {**asked, "successful": True})
    return session


def event(replay_id: int, channel: str = "/topic/A") -> dict[str, Any]:
    return {"channel": channel, "data": {"event": {"replayId": replay_id}}}


def wanting(**channels: int) -> BayeuxSession:
    session = BayeuxSession()
    for name, replay in channels.items():
        session.want(f"/topic/{name}", replay)
    return session


def replays(session: BayeuxSession) -> list[dict[str, int]]:
    """Replay maps of the subscribes that are due."""
    return [one["ext"]["replay"] for one in session.to_subscribe()]


def test_a_lost_session_continues_after_the_last_event() -> None:
    """Each channel is subscribed again after its own last event, or from its start."""
    session = opened(wanting(A=-2, B=-1))
    assert replays(session) == []
    assert answered(session, event(4), event(9)) == [4, 9]
    answered(session, LOST)
    assert session.client_id == ""
    opened(session, "c2")
    answered(session, LOST)
    assert session.failure is not None
    assert replays(session) == [{"/topic/A": 9}, {"/topic/B": -1}]
    assert session.missed == ["/topic/B", "/topic/B"]


def test_an_advised_handshake_is_one() -> None:
    """A successful connect may advise a handshake as well: the session failed all the same."""
    session = opened(wanting(A=-1))
    advice = {"reconnect": "handshake"}
    answered(session, {"channel": "/meta/connect", "successful": True, "advice": advice})
    assert session.client_id == ""
    assert session.failure is not None
    assert session.failure.remedy == "handshake"


def test_advice_sets_the_times() -> None:
    """The interval and the time of a poll are the advised ones; without advice they stay."""
    session = opened(wanting(A=-1))
    assert (session.interval, session.poll_seconds) == (0.0, 110.0)
    told = {"interval": 2000, "timeout": 55_000, "reconnect": "retry"}
    answered(session, {"channel": "/meta/connect", "successful": True, "advice": told})
    answered(session, {"channel": "/meta/connect", "successful": True})
    assert (session.interval, session.poll_seconds) == (2.0, 55.0)


def test_an_answer_to_an_earlier_session_has_no_effect() -> None:
    """Events of a poll that outlived its session come again on the new one, so they are dropped."""
    session = opened(wanting(A=-2))
    answered(session, LOST)
    opened(session, "c2")
    assert session.take([(event(5), ""), (LOST, "")], "c1") == []
    assert (session.client_id, session.failure) == ("c2", None)


def test_a_busy_server_keeps_the_session() -> None:
    """A server without time for a request still knows the client."""
    session = opened(wanting(A=-1))
    busy = "503::Server is too busy. Please try your request again later."
    answered(session, {"channel": "/meta/connect", "successful": False, "error": busy})
    assert session.client_id == "c1"
    assert session.failure is not None
    assert session.failure.remedy == "wait"


def test_a_refused_channel_is_told_once_and_wanted_no_more() -> None:
    """One channel's refusal leaves the others subscribed."""
    session = wanting(A=-1, B=-1)
    answered(session, {"channel": "/meta/handshake", "clientId": "c1", "successful": True})
    good, bad = session.to_subscribe()
    answered(session, {**good, "successful": True})
    answered(session, {**bad, "successful": False, "error": "404::Unknown channel"})
    assert session.to_subscribe() == []
    refused = session.refused_channel()
    assert refused is not None
    assert "/topic/B" in str(refused.error)
    assert session.refused_channel() is None
    assert session.subscribed == {"/topic/A"}


def test_messages_have_ids_of_their_own() -> None:
    """No two messages of a session have the same id."""
    session = opened(wanting(A=-1, B=-1))
    sent = [session.to_connect(), session.to_connect(), session.to_disconnect()]
    assert len({one["id"] for one in sent}) == len(sent)
    assert session.to_unsubscribe("/topic/C") is None


@settings(deadline=None)
@given(st.lists(st.sampled_from(["events", "lost", "advised", "busy", "empty"]), max_size=60))
def test_every_event_is_given_once(happenings: list[str]) -> None:
    """Whatever ends sessions, the caller gets each event once and in order."""
    session, given_ids, retained = wanting(A=-2), [], list(range(1, 200))
    for number, what in enumerate(happenings):
        if not session.client_id:
            opened(session, f"c{number}")
        place = session.channels["/topic/A"].replay
        rest = [one for one in retained if one > place]
        if what == "events":
            given_ids += answered(session, *map(event, rest[:3]))
        elif what == "lost":
            answered(session, LOST)
        elif what == "advised":
            good = {"channel": "/meta/connect", "successful": True}
            answered(session, {**good, "advice": {"reconnect": "handshake"}})
        elif what == "busy":
            answered(session, {**LOST, "error": "503::Server is too busy", "advice": {}})
        assert session.client_id == "" or not session.to_subscribe()
    assert given_ids == retained[: len(given_ids)]
    assert len(given_ids) == min(3 * happenings.count("events"), len(retained))
