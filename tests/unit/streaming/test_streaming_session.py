"""A session over a made-up transport, for what no server does on request."""

from __future__ import annotations

import asyncio
import json
from itertools import count
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.auth.settings import SessionToken, Settings
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST
from airflow_provider_sfevents.streaming.session_slots import TURN_SECONDS, SessionSlots
from airflow_provider_sfevents.streaming.streaming_session import StreamingSession
from airflow_provider_sfevents.streaming.streaming_source import StreamingSource
from tests.harness.pauses import Pauses

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.pubsub.streaming.delivery import ReceivedMessage
    from airflow_provider_sfevents.replay_point import ReplayPoint
    from airflow_provider_sfevents.streaming.bayeux_messages import StreamedEvent

SETTINGS = Settings(
    login=SessionToken(
        token=Secret("00D000000000001!t"), instance_url="http://localhost", org_id="00D000000000001"
    )
)


def event(replay_id: int) -> dict[str, Any]:
    return {"channel": "/topic/A", "data": {"event": {"replayId": replay_id}}}


class Server:
    """Answers what it is told to, in turn; then accepts everything without events.

    :ivar asked: channels of the messages so far, a subscribe with its replay map.
    :ivar advice: of every accepted connect.
    """

    def __init__(self, **answers: list[Any]) -> None:
        self.asked: list[Any] = []
        self._answers = answers
        self._clients = 0
        self.advice: dict[str, Any] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        found: list[Any] = []
        for message in json.loads(request.content):
            name = message["channel"].removeprefix("/meta/")
            self.asked.append(message["ext"]["replay"] if name == "subscribe" else name)
            told = self._answers.get(name)
            answer = told.pop(0) if told else []
            if isinstance(answer, Exception):
                raise answer
            if isinstance(answer, httpx.Response):
                return answer
            self._clients += name == "handshake"
            good = {**message, "successful": True, "clientId": f"c{self._clients}"}
            if name == "connect" and self.advice:
                good["advice"] = self.advice
            found += [*answer, good]
        return httpx.Response(200, json=found)

    def open(self, *_: Any) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.MockTransport(self))


async def _at_once(_: float) -> None:
    await asyncio.sleep(0)


def received(
    server: Server, times: int, start: ReplayPoint = EARLIEST
) -> tuple[list[StreamedEvent], list[StreamedEvent]]:
    """Events of some `receive`s and of the close."""

    async def run() -> tuple[list[StreamedEvent], list[StreamedEvent]]:
        session = StreamingSession(
            SETTINGS, sessions=SessionCache(), http=server.open, pause=_at_once
        )
        await session.subscribe("/topic/A", start)
        found = [one for _ in range(times) for one in await session.receive()]
        return found, await session.close()

    return asyncio.run(run())


def ids(events: list[StreamedEvent]) -> list[int | None]:
    return [one.replay_id for one in events]


def test_a_cut_poll_is_followed_by_another_session() -> None:
    """The events of a lost answer come again only to a new subscription."""
    cut = httpx.ReadError("cut")
    server = Server(connect=[[event(3)], cut, [event(5)]])
    found, rest = received(server, 2)
    assert (ids(found), rest) == ([3, 5], [])
    assert server.asked == [
        *("handshake", {"/topic/A": -2}, "connect", "connect"),
        *("handshake", {"/topic/A": 3}, "connect", "disconnect"),
    ]


@pytest.mark.parametrize(
    ("answer", "again"),
    [
        (httpx.Response(200, text="<html>Sign on</html>"), [*("handshake", {"/topic/A": 3})]),
        (httpx.Response(502), [*("handshake", {"/topic/A": 3})]),
        (httpx.Response(429, text="slow down"), []),
        (httpx.Response(404, text="<html>not here</html>"), []),
    ],
    ids=["sign-on", "gateway", "busy", "elsewhere"],
)
def test_an_answer_without_messages_is_waited_out(answer: httpx.Response, again: list[Any]) -> None:
    """A new session brings again what may have been lost between the service and the client."""
    server = Server(connect=[[event(3)], answer, [event(5)]])
    found, _ = received(server, 2)
    assert ids(found) == [3, 5]
    assert server.asked == [
        *("handshake", {"/topic/A": -2}, "connect", "connect"),
        *(*again, "connect", "disconnect"),
    ]


def test_a_service_that_always_advises_a_handshake_is_asked_ever_more_rarely() -> None:
    """Connects that end their session without an event are failures: pauses grow, then an error."""
    server, pauses = Server(connect=[[], [], [], [], [event(3)]]), Pauses()
    server.advice = {"reconnect": "handshake"}

    async def run() -> list[StreamedEvent]:
        session = StreamingSession(
            SETTINGS, sessions=SessionCache(), http=server.open, pause=pauses, tries=4
        )
        async with session:
            await session.subscribe("/topic/A", EARLIEST)
            events = await session.receive()
            assert len(pauses.seconds) == 3
            assert pauses.seconds == sorted(pauses.seconds)
            with pytest.raises(TransportError, match="advised a new handshake"):
                await session.receive()
            return events

    assert ids(asyncio.run(run())) == [3]
    assert server.asked.count("connect") == 5 + 4


def test_sessions_that_end_with_their_second_connect_begin_ever_more_rarely() -> None:
    """The first connect is answered at once, so it does not show that a session lasts."""
    pauses, answers = Pauses(), list[Any]()
    for _ in range(5):
        unknown = {"channel": "/meta/connect", "error": "403::Unknown client", "successful": False}
        answers += [[], httpx.Response(200, json=[unknown])]

    async def run() -> list[StreamedEvent]:
        server = Server(connect=[*answers, [event(3)]])
        session = StreamingSession(
            SETTINGS, sessions=SessionCache(), http=server.open, pause=pauses, tries=2
        )
        async with session:
            await session.subscribe("/topic/A", EARLIEST)
            found: list[StreamedEvent] = []
            while not found:
                found = await session.receive()
            return found

    assert ids(asyncio.run(run())) == [3]
    assert len(pauses.seconds) == 4
    assert pauses.seconds == sorted(pauses.seconds)


def test_events_beside_the_answer_to_a_subscribe_are_kept() -> None:
    """An event may come with any answer; the next `receive` returns it without a poll."""
    server = Server(subscribe=[[event(1)]])
    assert ids(received(server, 1)[0]) == [1]
    assert "connect" not in server.asked
    server = Server(subscribe=[[event(1)]])
    assert ids(received(server, 0)[1]) == [1]


def test_missed_events_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """A session from `latest` that is lost before its first event misses some, and says so."""
    received(Server(connect=[httpx.ReadError("cut")]), 1, LATEST)
    assert "Events of /topic/A that are published until the next subscription are missed" in (
        caplog.text
    )
    caplog.clear()
    received(Server(connect=[[event(1)], httpx.ReadError("cut")]), 2, LATEST)
    assert "are missed" not in caplog.text


def test_a_wait_that_passes_its_turn_on_keeps_its_failure() -> None:
    """A turn without a connect that works is no silence: the failure outlives the session."""
    server = Server(subscribe=[httpx.Response(429, text="slow down")])
    slots, others = SessionSlots(1), list[asyncio.Future[None]]()

    async def until_another_waits(_: float) -> None:
        others.append(asyncio.ensure_future(slots.take()))
        await asyncio.sleep(0)

    def session() -> StreamingSession:
        return StreamingSession(
            SETTINGS, sessions=SessionCache(), http=server.open, pause=until_another_waits
        )

    async def none(_: Sequence[StreamedEvent]) -> list[ReceivedMessage]:
        return []

    async def run() -> str:
        seconds = count(step=TURN_SECONDS + 1)
        clock = Clock(monotonic=lambda: next(seconds))
        source = StreamingSource(
            session, "/topic/A", EARLIEST, clock, None, columns=none, slots=slots
        )
        await source.next(60)
        await asyncio.gather(*others)
        await source.close()
        return str(source.failure)

    assert "429::slow down" in asyncio.run(run())
    assert server.asked[-1] == "disconnect"
