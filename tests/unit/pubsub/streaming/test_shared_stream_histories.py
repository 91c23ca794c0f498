"""Shared streams under random histories of waits, publishes and broken streams."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings, strategies as st

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.pubsub.streaming.subscribe_call import StreamEndedError
from tests.unit.pubsub.streaming.made_up_bus import Bus, Wait, Waits, event_id, settle

_WAITS = st.tuples(
    st.just("begin"),
    st.sampled_from(["first", "now", "latest", "keepalive", "another"]),
    st.sampled_from([1, 2, 7, 100, 250]),
    st.booleans(),
)
_ONE = st.integers(0, 7)
_ACTIONS = st.one_of(
    _WAITS,
    _WAITS,
    st.tuples(st.just("publish"), st.sampled_from([1, 2, 5, 40])),
    st.tuples(st.sampled_from(["stop", "cancel", "go_on"]), _ONE),
    st.just(("keepalive",)),
    st.tuples(
        st.just("lose"), st.sampled_from([TransportError("it broke"), StreamEndedError("it ended")])
    ),
    st.tuples(st.just("steps"), st.integers(1, 12)),
)


class WatchState:
    """Carries actions out, and knows the start of each wait."""

    def __init__(self, piece: int) -> None:
        self.bus = Bus(piece)
        self.waits = Waits(self.bus)
        self.all: list[tuple[Wait, int | None]] = []
        self._kept = self.bus.keepalive()

    async def do(self, action: tuple[Any, ...]) -> None:
        match action:
            case ("begin", where, events, busy):
                self._begin(where, events, busy)
            case ("publish", events):
                self.bus.publish(events)
            case ("keepalive",):
                self._kept = self.bus.keepalive()
            case ("lose", error):
                self.bus.lose(error)
            case ("steps", count):
                for _ in range(count):
                    await asyncio.sleep(0)
            case (what, at) if at < len(self.all):
                self._tell(self.all[at][0], what)

    def _begin(self, where: str, events: int, busy: bool) -> None:
        published = self.bus.published
        now = event_id(published) if published else "earliest"
        start, also = {
            "first": ("earliest", ()),
            "now": (now, ()),
            "latest": ("latest", ()),
            "keepalive": (self._kept, ()),
            "another": (now, (self.bus.keepalive(),)),
        }[where]
        place = None if start == "latest" else self.bus.after(start)
        self.all.append((self.waits.begin(start, events, also=also, busy=busy), place))

    def _tell(self, wait: Wait, what: str) -> None:
        if what == "stop":
            wait.stop.set()
        elif what == "cancel":
            wait.task.cancel()
        else:
            wait.gate.set()

    async def end(self) -> None:
        """Let every wait end."""
        for wait, _ in self.all:
            wait.gate.set()
        await settle()
        self.bus.publish(400)
        await settle()
        for wait, _ in self.all:
            wait.stop.set()
        await asyncio.wait([wait.task for wait, _ in self.all])
        await settle()


@settings(deadline=None, max_examples=150)  # a busy machine is no defect
@given(piece=st.sampled_from([1, 3, 16]), actions=st.lists(_ACTIONS, max_size=30))
def test_no_subscriber_misses_an_event_or_gets_it_twice(
    piece: int, actions: list[tuple[Any, ...]]
) -> None:
    """Every wait gets the events after its start in order, without gap or double.

    It stays within its bound, and gets only keepalives of its position. In the end no stream and no
    task is left, and no stream was ever asked for more than 100 at once.
    """

    async def play() -> WatchState:
        scene = WatchState(piece)
        scene.all.append((scene.waits.begin("earliest", 50), 0))
        async with asyncio.timeout(100):
            for action in actions:
                await scene.do(action)
            await scene.end()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return scene

    scene = asyncio.run(play())
    assert scene.bus.running == []
    for wait, place in scene.all:
        began = place if place is not None else min(wait.numbers, default=1) - 1
        assert wait.numbers == list(range(began + 1, began + len(wait.numbers) + 1))
        if not wait.task.cancelled() and not wait.task.exception():  # broken seven times on end
            assert wait.task.result().events == len(wait.numbers)
        for name, last in wait.waited:
            if last is not None or wait.numbers or place is not None:
                assert scene.bus.after(name) == (began if last is None else last)
    assert all(stream.most_owed <= 100 for stream in scene.bus.streams)
