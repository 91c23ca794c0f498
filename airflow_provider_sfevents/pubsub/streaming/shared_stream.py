"""Shared stream: one subscription read for several members.

Each gets every delivery after it joined.

A task of its own reads it, because with grpc.aio a cancelled read or write cancels the call: a
member that leaves or is cancelled must not end the stream of the others. A delivery is handed to
all members in one step of the loop, without an await: a member joins before or after it.
"""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import TYPE_CHECKING, Protocol

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
from airflow_provider_sfevents.pubsub.streaming.stream_position import (
    JoinRequest,
    StreamPosition,
    is_over_asked,
    latest_id_for,
    shared_credit,
)
from airflow_provider_sfevents.pubsub.streaming.wake_up import WakeUp

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.pubsub.streaming.subscription import Subscription
    from airflow_provider_sfevents.replay_point import ReplayPoint

_LISTEN_SECONDS = 3600.0  # the reading task wakes up this often; nothing depends on it


class StreamMember(Protocol):
    """Interface of a member of a shared stream. All methods act at once, without an await."""

    @property
    def request(self) -> JoinRequest:
        """Position from which the member continues."""

    @property
    def wanted(self) -> int:
        """Events that the member would still take."""

    @property
    def is_full(self) -> bool:
        """True if the member holds so many unread bytes that nothing more should be read for it."""

    def deliver(self, delivery: Delivery) -> None: ...

    def wake(self) -> None:
        """The stream was opened, lost or ended."""

    def detach(self) -> None:
        """Leave the stream; the member continues from the last delivery that it got."""


class SharedStream:
    """Begins to read when it is made.

    :param first: join request of the first member, which still has to join.
    :param subscription: makes a subscription that continues from a replay point.
    :param forget: called when no member may join any more.

    `losses` are the streams lost so far.
    """

    def __init__(
        self,
        first: JoinRequest,
        subscription: Callable[[ReplayPoint], Subscription],
        forget: Callable[[SharedStream], None],
    ) -> None:
        self._position = StreamPosition(first)
        self._make = subscription
        self._subscription = subscription(first.start)
        self._forget = forget
        self._members: list[StreamMember] = []
        self._room = WakeUp()
        self._closing = False
        self._member_left = False
        self._losses_before = 0
        # In a context of its own: it does not belong to the first member's task, and must not keep
        # its context variables.
        self._reading = asyncio.get_running_loop().create_task(self._read(), context=Context())
        self._reading.add_done_callback(self._ended)

    # --- for members ---------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        return self._subscription.is_open

    @property
    def is_over(self) -> bool:
        """True if nothing more will come."""
        return self._reading.done()

    @property
    def error(self) -> BaseException | None:
        """The error that ended the stream; None if it still runs or was read to its end."""
        if not self._reading.done() or (self._reading.cancelled() and self._closing):
            return None
        if self._reading.cancelled():
            return TransportError("The client was closed while a fetch listened.")
        return self._reading.exception()

    @property
    def replay_point(self) -> ReplayPoint:
        """Replay point from which another stream would continue."""
        return self._subscription.replay_point

    @property
    def failure(self) -> SfEventsError | None:
        """The last loss's error, until a stream answers again."""
        return self._subscription.failure

    def not_opened(self, seconds: float) -> TransportError:
        """Make the error for a stream that was not opened within so long."""
        return self._subscription.not_opened(seconds)

    @property
    def losses(self) -> int:
        return self._losses_before + self._subscription.losses

    def listening_since(self, now: float) -> float:
        return self._subscription.listening_since(now)

    def admits(self, request: JoinRequest) -> bool:
        return self._position.admits(request)

    def join(self, member: StreamMember) -> None:
        """Add a member, which gets every delivery from now on, and at once the latest replay id."""
        request = member.request
        self._members.append(member)
        if news := latest_id_for(request, self._position):
            member.deliver(_keepalive(bytes.fromhex(news)))
        self._position.add_ids_of(request)
        self.update_credit()

    def update_credit(self) -> None:
        """Request again: a member wants more than before, or has room again."""
        self._subscription.wake()
        self._room.wake()

    def leave(self, member: StreamMember) -> bool:
        """Take the member out, unless it is the last.

        For the last one the stream is half-closed, and the rest is delivered to it.

        :returns: whether the member has left.
        """
        if len(self._members) > 1:
            self._take_out(member)
            return True
        if self._closing:
            return False
        self._forget(self)
        self._closing = True
        if not self._subscription.is_open:
            self._reading.cancel()  # nothing was requested yet, so nothing will come
        self.update_credit()
        return False

    async def drop(self, member: StreamMember) -> None:
        """Take the member out, even the last one: then no stream is open when this returns."""
        if member in self._members:
            self._take_out(member)
        if not self._members:
            await self.close()

    async def close(self) -> None:
        self._forget(self)
        self._reading.cancel()
        await asyncio.wait((self._reading,))

    def _take_out(self, member: StreamMember) -> None:
        self._members.remove(member)
        self._member_left = True
        self.update_credit()

    # --- the reading task ----------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            while not self._closing:
                await self._wait_for_room()
                if self._member_left:
                    await self._reduce_credit()
                if await self._ask():
                    await self._read_one()
            await self._drain()
        finally:
            self._forget(self)
            await self._subscription.close()

    async def _wait_for_room(self) -> None:
        """Wait until one member has room: the quickest member sets the pace."""
        while self._members and all(one.is_full for one in self._members) and not self._closing:
            await self._room.wait()

    async def _ask(self) -> bool:
        """Request the wanted events; False if more is wanted by now or the members changed."""
        wanted = self._wanted()
        await self._subscription.ask_up_to(wanted)
        return wanted == self._wanted() and not self._closing and not self._member_left

    def _wanted(self) -> int:
        return shared_credit(one.wanted for one in self._members)

    async def _read_one(self) -> None:
        was = (self._subscription.is_open, self._subscription.losses)
        delivery = await self._subscription.next(_LISTEN_SECONDS)
        if delivery is not None:
            self._hand_out(delivery)
        elif was != (self._subscription.is_open, self._subscription.losses):
            self._wake_members()

    def _hand_out(self, delivery: Delivery) -> None:
        name = delivery.resume_after.hex()
        if len(delivery):
            self._position.event_received(name)
        elif name:
            self._position.keepalive_received(name, owed=delivery.pending)
        pace_is_kept = not all(one.is_full for one in self._members)
        for member in tuple(self._members):
            if pace_is_kept and member.is_full:
                self._members.remove(member)
                member.detach()
            else:
                member.deliver(delivery)

    async def _reduce_credit(self) -> None:
        """Continue on another stream if too much is requested on this one.

        Nothing is lost or doubled: this one is read to its end first.
        """
        self._member_left = False
        wants = [one.wanted for one in self._members]
        if not is_over_asked(self._subscription.outstanding, wants, self.replay_point):
            return
        await self._drain()
        losses = self.losses
        self._subscription = self._make(self._subscription.replay_point)
        self._losses_before = losses
        self._wake_members()

    async def _drain(self) -> None:
        async for delivery in self._subscription.rest():
            self._hand_out(delivery)

    def _wake_members(self) -> None:
        for member in self._members:
            member.wake()

    def _ended(self, reading: asyncio.Task[None]) -> None:
        if not reading.cancelled():
            reading.exception()  # marks it as retrieved, in case no member is left
        self._wake_members()


def _keepalive(replay_id: bytes) -> Delivery:
    return Delivery(events=(), latest_replay_id=replay_id, pending=0, rpc_id="", received_at=0)
