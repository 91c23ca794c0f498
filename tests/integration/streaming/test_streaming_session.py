"""Sessions of the Streaming API, over a real socket to the emulator."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    ReplayIdRefusedError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.auth.settings import (
    ClientCredentials,
    SessionToken,
    Settings,
)
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST
from airflow_provider_sfevents.streaming.bayeux_messages import point_after
from airflow_provider_sfevents.streaming.streaming_session import StreamingSession
from tests.harness.pauses import Pauses

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from airflow_provider_sfevents.streaming.bayeux_messages import StreamedEvent

pytestmark = pytest.mark.anyio

TOPIC = "/event/Order__e"
LONG = 120.0


@pytest.fixture
def bus() -> Iterator[Emulator]:
    """An emulator whose polls last a second, with one topic."""
    with Emulator(knobs=Knobs(cometd_time_scale=0.01)) as bus:
        bus.define_event("Order__e", {"N__c": "Double"})
        yield bus


def settings_of(bus: Emulator, *, renewable: bool = False) -> Settings:
    if renewable:
        extra = bus.connection("client_credentials")
        login: Any = ClientCredentials(
            login_url=bus.my_domain_url,
            client_id=extra["login"],
            client_secret=Secret(extra["password"]),
        )
    else:
        extra = bus.connection("session")["extra"]
        login = SessionToken(
            token=Secret(extra["session_token"]), instance_url=extra["instance_url"]
        )
    return Settings(login=login, ca_file=bus.ca_file or "")


@asynccontextmanager
async def opened(
    bus: Emulator, *, renewable: bool = False, **more: Any
) -> AsyncIterator[StreamingSession]:
    more = {"sessions": SessionCache(), "pause": Pauses(), **more}
    async with (
        asyncio.timeout(LONG),
        StreamingSession(settings_of(bus, renewable=renewable), **more) as session,
    ):
        yield session


def publish(bus: Emulator, *numbers: int, topic: str = TOPIC) -> None:
    bus.publish(topic, [{"N__c": number} for number in numbers])


async def take(session: StreamingSession, count: int) -> list[StreamedEvent]:
    """So many events, which is all that came by then."""
    found: list[StreamedEvent] = []
    while len(found) < count:
        found += await session.receive()
    assert len(found) == count
    return found


def numbers(events: list[StreamedEvent]) -> list[int]:
    return [int(one.message["data"]["payload"]["N__c"]) for one in events]


async def test_all_events_then_new_ones(bus: Emulator) -> None:
    """From the earliest on, retained events come first; each has channel, id and its JSON."""
    publish(bus, 1, 2)
    async with opened(bus) as session:
        at = await session.subscribe(TOPIC, EARLIEST)
        assert at is not None
        events = await take(session, 2)
        publish(bus, 3)
        events += await take(session, 1)
    assert numbers(events) == [1, 2, 3]
    assert {one.channel for one in events} == {TOPIC}
    assert all(isinstance(one.replay_id, int) for one in events)
    assert '"N__c":' in events[0].text.replace(" ", "")


async def test_a_start_is_latest_or_an_id(bus: Emulator) -> None:
    """`latest` brings new events only, and an id those after it."""
    publish(bus, 1, 2, 3)
    async with opened(bus) as session:
        await session.subscribe(TOPIC, EARLIEST)
        first, *_ = await take(session, 3)
    assert first.replay_id is not None
    async with opened(bus) as after, opened(bus) as new:
        await after.subscribe(TOPIC, point_after(first.replay_id))
        await new.subscribe(TOPIC, LATEST)
        publish(bus, 4)
        assert numbers(await take(after, 3)) == [2, 3, 4]
        assert numbers(await take(new, 1)) == [4]


async def test_several_channels_on_one_session(bus: Emulator) -> None:
    """Channels have their own starts; one of them can be left, and one be added during a poll."""
    other = bus.define_event("Alert__e", {"N__c": "Double"})
    publish(bus, 1)
    publish(bus, 2, topic=other)
    async with opened(bus) as session:
        await session.subscribe(TOPIC, EARLIEST)
        assert numbers(await take(session, 1)) == [1]
        reading = asyncio.ensure_future(take(session, 1))
        await session.subscribe(other, EARLIEST)
        assert [one.channel for one in await reading] == [other]
        await session.unsubscribe(TOPIC)
        publish(bus, 3)
        publish(bus, 4, topic=other)
        assert numbers(await take(session, 1)) == [4]
        assert session.handshakes == 1


async def test_a_channel_has_one_replay_point_in_a_session(bus: Emulator) -> None:
    """A second subscription of a channel is refused before it is sent."""
    async with opened(bus) as session:
        await session.subscribe(TOPIC, EARLIEST)
        with pytest.raises(ConfigurationError, match="one replay point per channel"):
            await session.subscribe(TOPIC, LATEST)


async def test_a_lost_session_is_replaced(bus: Emulator) -> None:
    """After 403::Unknown client the next session continues after the last event."""
    publish(bus, 1)
    async with opened(bus) as session:
        await session.subscribe(TOPIC, EARLIEST)
        assert numbers(await take(session, 1)) == [1]
        bus.fail_next("cometd", status="NOT_FOUND")
        publish(bus, 2)
        assert numbers(await take(session, 1)) == [2]
        assert session.handshakes == 2


async def test_a_cancelled_receive_loses_nothing(bus: Emulator) -> None:
    """The next `receive` has the answer to the poll of a cancelled one."""
    async with opened(bus) as session:
        await session.subscribe(TOPIC, EARLIEST)
        for number in range(3):
            reading = asyncio.ensure_future(session.receive())
            await asyncio.sleep(0)
            publish(bus, number)
            reading.cancel()
            with suppress(asyncio.CancelledError):
                assert numbers(await reading) == [number]
                continue
            assert numbers(await take(session, 1)) == [number]


async def test_an_expired_token_is_renewed_once(bus: Emulator) -> None:
    """A new login follows 401, and its session continues after the last event."""
    publish(bus, 1)
    async with opened(bus, renewable=True) as session:
        await session.subscribe(TOPIC, EARLIEST)
        assert numbers(await take(session, 1)) == [1]
        for number in (2, 3):
            bus.expire_tokens()
            publish(bus, number)
            assert numbers(await take(session, 1)) == [number]


@pytest.mark.parametrize("between", [0, 2], ids=["at the handshake", "at the connect"])
async def test_a_token_that_is_refused_twice_is_an_error(bus: Emulator, between: int) -> None:
    """A new token that is refused as well is no reason for a third login."""
    async with opened(bus, renewable=True) as session:
        await session.subscribe(TOPIC, EARLIEST)
        for after in (0, between):
            bus.fail_next("cometd", status="UNAUTHENTICATED", after=after)
        with pytest.raises(AuthenticationError, match="401::Authentication invalid"):
            await take(session, 1)


async def test_a_session_token_cannot_be_renewed(bus: Emulator) -> None:
    """The error of an expired session token says that another one is needed."""
    bus_settings = settings_of(bus)
    bus.expire_tokens()
    async with StreamingSession(bus_settings, sessions=SessionCache()) as session:
        with pytest.raises(AuthenticationError, match="give a fresh one"):
            await session.subscribe(TOPIC, EARLIEST)


@pytest.mark.parametrize(
    ("channel", "start", "error", "text"),
    [
        ("/event/None__e", LATEST, TopicError, "/event/None__e"),
        ("/u/None", LATEST, TopicError, "/u/None"),
        (TOPIC, point_after(10**12), ReplayIdRefusedError, "replay_fallback"),
    ],
)
async def test_a_subscribe_that_is_refused(
    bus: Emulator, channel: str, start: Any, error: type[Exception], text: str
) -> None:
    """A wrong channel and a wrong id are errors, after which the session is of use."""
    async with opened(bus) as session:
        with pytest.raises(error, match=text):
            await session.subscribe(channel, start)
        await session.subscribe(TOPIC, EARLIEST)
        publish(bus, 1)
        assert numbers(await take(session, 1)) == [1]


async def test_a_used_up_allowance_is_not_waited_out(bus: Emulator) -> None:
    """The daily limit is an error at once."""
    async with opened(bus) as session:
        await session.subscribe(TOPIC, EARLIEST)
        bus.fail_next("cometd", status="RESOURCE_EXHAUSTED")
        with pytest.raises(QuotaExceededError, match="daily"):
            await session.receive()


async def test_too_many_clients_are_waited_for() -> None:
    """A session beyond the org's limit waits until another one has ended."""
    knobs = Knobs(cometd_time_scale=0.01, cometd_max_clients=1)
    with Emulator(knobs=knobs) as bus:
        bus.define_event("Order__e", {"N__c": "Double"})
        async with opened(bus) as first:
            await first.subscribe(TOPIC, LATEST)

            async def until_free(seconds: float) -> None:
                pauses.append(seconds)
                await first.close()

            pauses: list[float] = []
            async with opened(bus, pause=until_free) as second:
                await second.subscribe(TOPIC, EARLIEST)
                publish(bus, 1)
                assert numbers(await take(second, 1)) == [1]
            assert pauses == [pytest.approx(1.5, abs=0.5)]


async def test_a_service_that_is_away_is_an_error_after_some_tries(bus: Emulator) -> None:
    """Tries become rarer, and the error names the host."""
    pauses = Pauses()
    async with opened(bus, tries=3, pause=pauses) as session:
        bus.stop()
        with pytest.raises(TransportError, match="cannot be reached"):
            await session.subscribe(TOPIC, EARLIEST)
    assert len(pauses.seconds) == 3
    assert pauses.seconds == sorted(pauses.seconds)


async def test_a_connect_that_never_works_is_an_error_after_some_tries(bus: Emulator) -> None:
    """Sessions that are lost before their first connect are replaced after pauses, and not forever.

    So it is behind a proxy that sends each connect to a server that does not know the client.
    """
    pauses = Pauses()
    async with opened(bus, tries=3, pause=pauses) as session:
        await session.subscribe(TOPIC, EARLIEST)
        bus.fail_next("cometd", status="NOT_FOUND")
        for _ in range(8):
            bus.fail_next("cometd", status="NOT_FOUND", after=2)
        with pytest.raises(TransportError, match="403::Unknown client"):
            await session.receive()
        assert session.handshakes == 4
        assert len(pauses.seconds) == 2
        assert session.trouble is not None
        bus.clear_faults()
        assert await session.receive() == []
        assert session.trouble is None


async def test_the_end_of_a_session_keeps_what_the_poll_brings(bus: Emulator) -> None:
    """Closing ends the session on the service, and returns what the open poll had brought."""
    session = StreamingSession(settings_of(bus), sessions=SessionCache())
    await session.subscribe(TOPIC, EARLIEST)
    assert await session.receive() == []  # the first connect is answered at once
    reading = asyncio.ensure_future(session.receive())
    await asyncio.sleep(0)
    reading.cancel()
    with suppress(asyncio.CancelledError):
        await reading
    publish(bus, 1)
    async with asyncio.timeout(LONG):
        while not bus.deliveries():  # noqa: ASYNC110 - of another thread
            await asyncio.sleep(0.01)
    assert numbers(await session.close()) == [1]
    assert bus.open_streams == 0
