"""Waits that share a stream: joining, leaving, and the events of each."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ReplayIdRefusedError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.streaming.subscribe_call import StreamEndedError
from tests.unit.pubsub.streaming.made_up_bus import Bus, Waits, event_id, settle

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def play(scene: Callable[[Bus, Waits], Awaitable[None]], piece: int = 16) -> Bus:
    """Play a scene; afterwards no stream is open and no task is left."""

    async def run() -> Bus:
        bus = Bus(piece)
        await scene(bus, Waits(bus))
        await settle()
        assert bus.running == []
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return bus

    return asyncio.run(run())


def numbers(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


def test_one_stream_for_all_at_a_place() -> None:
    """Waits at one position share one stream with the credit of one; each gets every event once."""

    async def scene(bus: Bus, waits: Waits) -> None:
        all_of_them = [waits.begin("earliest", 5) for _ in range(20)]
        await settle()
        assert [stream.asked for stream in bus.streams] == [[5]]
        bus.publish(8)
        results = [await wait.task for wait in all_of_them]
        assert [wait.numbers for wait in all_of_them] == [numbers(1, 5)] * 20
        assert {result.ended_by for result in results} == {"max_events"}

    bus = play(scene)
    assert (len(bus.streams), bus.delivered) == (1, 5)


def test_the_largest_want_is_asked_for() -> None:
    """The largest want of all members decides the credit, and nothing is requested twice."""

    async def scene(bus: Bus, waits: Waits) -> None:
        small, large = waits.begin("earliest", 1), waits.begin("earliest", 100)
        await settle()
        bus.publish(3)
        assert (await small.task).events == 1
        bus.publish(97)
        assert (await large.task).events == 100
        assert (small.numbers, large.numbers) == ([1], numbers(1, 100))

    bus = play(scene)
    assert [stream.asked for stream in bus.streams] == [[100]]
    assert bus.delivered == 100


def test_nothing_is_asked_for_again_before_it_is_looked_at() -> None:
    """Unread events count against a member's want: a wait for two is never delivered four."""

    async def scene(bus: Bus, waits: Waits) -> None:
        busy = waits.begin("earliest", 3, busy=True)
        await settle()
        bus.publish(10)  # in pieces of one: the first is being staged while the others come
        await settle()
        assert sum(bus.streams[0].asked) == 3
        busy.gate.set()
        await busy.task
        assert busy.numbers == [1, 2, 3]

    assert play(scene, piece=1).delivered == 3


@pytest.mark.parametrize("name", ["start", "keepalive", "other"])
def test_a_new_member_joins_by_any_replay_id_of_the_position(name: str) -> None:
    """A new member joins by any replay id of the position, and misses nothing."""

    async def scene(bus: Bus, waits: Waits) -> None:
        bus.publish(2)
        early = waits.begin(event_id(2), 3)
        await settle()
        kept = [bus.keepalive() for _ in range(3)]
        await settle()
        starts = {"start": (event_id(2), ()), "keepalive": (kept[1], ())}
        start, also = starts.get(name, ("aaffff", (event_id(2),)))
        late = waits.begin(start, 3, also=also)
        await settle()
        bus.publish(3)
        await asyncio.gather(early.task, late.task)
        assert early.numbers == late.numbers == [3, 4, 5]
        assert late.waited == [(kept[-1], None)]  # what the place is called by now

    bus = play(scene)
    assert (len(bus.streams), bus.delivered) == (1, 3)


def test_a_wait_that_starts_before_a_passed_event_has_its_own_stream() -> None:
    """A wait that starts before an event that has passed gets a stream of its own."""

    async def scene(bus: Bus, waits: Waits) -> None:
        early = waits.begin("earliest", 2)
        await settle()
        bus.publish(1)
        await settle()
        late, beside = waits.begin("earliest", 2), waits.begin(event_id(1), 1)
        await settle()
        bus.publish(1)
        await asyncio.gather(early.task, late.task, beside.task)
        assert (early.numbers, late.numbers, beside.numbers) == ([1, 2], [1, 2], [2])

    assert [stream.start for stream in play(scene).streams] == ["earliest", "earliest"]


def test_events_that_have_arrived_are_not_missed() -> None:
    """A member that joins before arrived events are handed out gets them too."""

    async def scene(bus: Bus, waits: Waits) -> None:
        early = waits.begin("earliest", 3)
        await settle()
        late = waits.begin("earliest", 3)
        bus.publish(3)  # arrives before the new member runs
        await asyncio.gather(early.task, late.task)
        assert early.numbers == late.numbers == [1, 2, 3]

    assert len(play(scene, piece=1).streams) == 1


def test_joining_while_a_delivery_is_staged() -> None:
    """A member that joins behind a delivery gets only later events."""

    async def scene(bus: Bus, waits: Waits) -> None:
        busy = waits.begin("earliest", 4, busy=True)
        await settle()
        bus.publish(2)
        await settle()
        behind = waits.begin(event_id(2), 2)
        await settle()
        bus.publish(2)
        await behind.task
        busy.gate.set()
        await busy.task
        assert (busy.numbers, behind.numbers) == ([1, 2, 3, 4], [3, 4])

    assert len(play(scene).streams) == 1


@pytest.mark.parametrize("cancelled", [True, False])
def test_leaving_hurts_no_other_subscriber(cancelled: bool) -> None:
    """If a member stops or is cancelled, the others continue on the stream and get every event."""

    async def scene(bus: Bus, waits: Waits) -> None:
        some = [waits.begin("earliest", 9) for _ in range(3)]
        await settle()
        bus.publish(2)
        await settle()
        for leaving in (some[0], some[2]):
            leaving.stop.set()
            if cancelled:
                await leaving.cancel()
            else:
                assert (await leaving.task).ended_by == "stopped"
        bus.publish(7)
        assert (await some[1].task).events == 9
        assert [wait.numbers for wait in some] == [[1, 2], numbers(1, 9), [1, 2]]

    assert len(play(scene).streams) == 1


def test_unwanted_credit_is_given_up() -> None:
    """If the member with the largest want leaves, a stream with less credit takes over."""

    async def scene(bus: Bus, waits: Waits) -> None:
        large, small = waits.begin("earliest", 100), waits.begin("earliest", 3)
        await settle()
        bus.publish(1)
        await settle()
        large.stop.set()
        await large.task
        await settle()
        bus.publish(50)
        await small.task
        assert (large.numbers, small.numbers) == ([1], [1, 2, 3])

    bus = play(scene)
    assert [(stream.start, stream.asked) for stream in bus.streams] == [
        ("earliest", [100]),
        (event_id(1), [2]),
    ]
    assert bus.delivered == 3


def test_the_last_to_leave_takes_the_rest() -> None:
    """The last member gets the requested events that still come after its end."""

    async def scene(bus: Bus, waits: Waits) -> None:
        first, last = (waits.begin("earliest", 50, busy=True) for _ in range(2))
        await settle()
        bus.publish(2)
        await settle()
        first.stop.set()
        first.gate.set()
        await first.task
        last.stop.set()
        bus.publish(20)
        last.gate.set()
        await last.task
        assert (first.numbers, last.numbers) == ([1, 2], numbers(1, 22))

    assert len(play(scene).streams) == 1


def test_a_lost_stream_is_replaced_for_all() -> None:
    """A lost stream is replaced for all members, each of which gets no gap and no double."""

    async def scene(bus: Bus, waits: Waits) -> None:
        some = [waits.begin("earliest", 30) for _ in range(2)]
        await settle()
        bus.publish(20)
        bus.lose(StreamEndedError("it ended"))
        await settle()
        some.append(waits.begin(event_id(20), 10))
        await settle()
        bus.publish(10)
        losses = [(await wait.task).losses for wait in some]
        assert losses == [1, 1, 0]
        assert [wait.numbers for wait in some] == [numbers(1, 30)] * 2 + [numbers(21, 30)]

    assert [stream.start for stream in play(scene).streams] == ["earliest", event_id(20)]


def test_latest_joins_what_has_caught_up() -> None:
    """A wait at `latest` joins any stream that has caught up, and gets a replay id at once."""

    async def scene(bus: Bus, waits: Waits) -> None:
        bus.publish(30)
        replaying = waits.begin("earliest", 31)
        await settle()
        kept = bus.keepalive()
        await settle()
        now = waits.begin("latest", 1)
        await settle()
        assert now.waited == [(kept, None)]
        bus.publish(1)
        await asyncio.gather(replaying.task, now.task)
        assert (replaying.numbers, now.numbers) == (numbers(1, 31), [31])

    assert len(play(scene).streams) == 1


def test_latest_is_not_given_the_past() -> None:
    """A wait at `latest` joins no stream that may still deliver past events."""

    async def scene(bus: Bus, waits: Waits) -> None:
        bus.held_back = asyncio.Event()
        bus.publish(3)
        replaying = waits.begin("earliest", 4)
        first, second = waits.begin("latest", 1), waits.begin("latest", 1)
        await settle()
        bus.held_back.set()
        await settle()
        bus.publish(1)
        await asyncio.gather(replaying.task, first.task, second.task)
        assert (replaying.numbers, first.numbers, second.numbers) == ([1, 2, 3, 4], [4], [4])

    assert sorted(stream.start for stream in play(scene).streams) == ["earliest", "latest"]


def test_a_terminal_error_reaches_every_member() -> None:
    """A terminal error reaches each member as a copy, after the deliveries before it."""
    error = AuthenticationError("not you")

    async def scene(bus: Bus, waits: Waits) -> None:
        some = [waits.begin("earliest") for _ in range(2)]
        await settle()
        bus.publish(1)
        await settle()
        some.append(waits.begin(event_id(1)))
        await settle()
        bus.lose(error)
        first, second = [(await wait.task).error for wait in some[:2]]
        with pytest.raises(AuthenticationError, match="not you") as third:
            await some[2].task
        assert len({id(one) for one in (error, first, second, third.value)}) == 4

    play(scene)


def test_a_refused_replay_id_ends_no_other_member() -> None:
    """An expired replay id ends only the member that continues from it."""

    async def scene(bus: Bus, waits: Waits) -> None:
        bus.publish(1)
        old, new = bus.keepalive(), bus.keepalive()
        bus.forgotten.add(old)
        refused = waits.begin(old, 1, also=(event_id(1),))
        well = waits.begin(new, 1, also=(event_id(1),))
        with pytest.raises(ReplayIdRefusedError):
            await refused.task
        await settle()
        bus.publish(1)
        await well.task
        assert well.numbers == [2]

    assert len(play(scene).streams) == 2


def test_a_slow_subscriber_delays_no_other() -> None:
    """A member with 4 MB of unread deliveries leaves the stream, and misses nothing."""

    async def scene(bus: Bus, waits: Waits) -> None:
        quick, slow = waits.begin("earliest", 20), waits.begin("earliest", 20, busy=True)
        await settle()
        bus.publish(20)  # of 1 MB each, one by one
        await quick.task
        slow.gate.set()
        await slow.task
        assert quick.numbers == slow.numbers == numbers(1, 20)

    bus = play(scene, piece=1)
    assert [stream.start for stream in bus.streams] == ["earliest", event_id(5)]


def test_the_quickest_sets_the_pace() -> None:
    """While all members stage, no more is read than they can hold."""

    async def scene(bus: Bus, waits: Waits) -> None:
        some = [waits.begin("earliest", 20, busy=True) for _ in range(2)]
        await settle()
        bus.publish(20)
        await settle()
        assert bus.streams[0].unread == 20 - 1 - 4  # one is being staged, 4 MB are held
        for wait in some:
            wait.gate.set()
        await asyncio.gather(*(wait.task for wait in some))
        assert [wait.numbers for wait in some] == [numbers(1, 20)] * 2

    assert len(play(scene, piece=1).streams) == 1


def test_cancelled_while_a_stream_is_being_opened() -> None:
    """A wait that is cancelled while a login or connection hangs leaves no task and no stream."""

    async def scene(bus: Bus, waits: Waits) -> None:
        bus.held_back = asyncio.Event()
        first, second = waits.begin("earliest"), waits.begin("earliest")
        await settle()
        await first.cancel()
        second.stop.set()
        assert (await second.task).ended_by == "stopped"
        bus.held_back.set()

    assert play(scene).streams == []


def test_a_client_that_closes_tells_its_listeners() -> None:
    """A wait on a client that is closed ends with an error."""

    async def scene(bus: Bus, waits: Waits) -> None:
        wait = waits.begin("earliest")
        await settle()
        await waits.streams.close()
        with pytest.raises(TransportError, match="closed"):
            await wait.task

    play(scene)
