"""ManagedSubscribe call: a Subscribe call with commits, whose answers come among the deliveries."""

from __future__ import annotations

import asyncio
import logging
import uuid
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_provider_sfevents.proto.pubsub_api_pb2 import CommitReplayRequest, ManagedFetchRequest
from airflow_provider_sfevents.pubsub.managed.managed_rules import answered_commits, is_id
from airflow_provider_sfevents.pubsub.streaming.stream_source import SessionSource
from airflow_provider_sfevents.pubsub.streaming.subscribe_call import SubscribeCall
from airflow_provider_sfevents.replay_point import EARLIEST, ReplayPoint

if TYPE_CHECKING:
    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.pubsub.auth.secret import Secret
    from airflow_provider_sfevents.pubsub.clock import Clock
    from airflow_provider_sfevents.pubsub.pubsub_calls import PubSubCalls
    from airflow_provider_sfevents.pubsub.streaming.stream_source import LookUpTopic

log = logging.getLogger(__name__)

NOT_SENT = EARLIEST
"""Start of a managed subscription's stream: no request names it, because Salesforce keeps it."""


class ManagedSubscribeCall(SubscribeCall):
    """A ManagedSubscribe call.

    :param reference: id or developer name of the subscription; only the first request names it.
    """

    def __init__(
        self, call: Any, reference: str, *, doing: str, secret: Secret, clock: Clock
    ) -> None:
        super().__init__(call, "", doing=doing, secret=secret, clock=clock)
        self._reference = reference
        self._outstanding: dict[str, asyncio.Future[str]] = {}
        self._writing = asyncio.Lock()
        self.committed_at = clock.monotonic()

    @property
    def end(self) -> SfEventsError | None:
        """The error that ended the stream; None: it is open, as far as is known."""
        return self._end

    async def commit(self, replay_id: str, within_seconds: float) -> str:
        """Ask the service to keep a replay id, and wait for the answer.

        :param replay_id: hex.
        :param within_seconds: longest wait.
        :returns: empty if the service keeps it; otherwise its reason, or that no answer came.
        """
        answer = await self.send_commit(replay_id)
        try:
            async with asyncio.timeout(within_seconds):
                return await asyncio.shield(answer)
        except TimeoutError:
            return f"no answer came within {within_seconds:.0f} s"

    async def send_commit(self, replay_id: str) -> asyncio.Future[str]:
        """Send a commit and return the future of its answer."""
        if not self._asked:
            await self.ask(0, NOT_SENT)  # a commit is not allowed in the first request
        self._read_ahead()
        request_id = str(uuid.uuid4())
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._outstanding[request_id] = answer
        self._room.set()
        self.committed_at = self._clock.monotonic()
        commit = CommitReplayRequest(
            commit_request_id=request_id, replay_id=bytes.fromhex(replay_id)
        )
        await self.write(ManagedFetchRequest(commit_replay_id_request=commit))
        if self._end is not None:
            self._give_up(self._end)
        return answer

    @override
    async def write(self, message: Any) -> None:
        """Send one message at a time: a commit and a request may come from two tasks."""
        async with self._writing:
            await super().write(message)

    async def ended(self, within_seconds: float) -> int:
        """Half-close and read to the end.

        Returns the number of events that still came, which are dropped.
        """
        await self.half_close()
        self._read_ahead()
        reader, late = self._reader, 0
        loop = asyncio.get_running_loop()
        until = loop.time() + within_seconds
        while reader is not None and not reader.done() and loop.time() < until:
            await asyncio.wait((reader,), timeout=min(0.1, until - loop.time()))
            late += self._forget_arrived()
        late += self._forget_arrived()
        await self.close()
        return late

    @override
    def _request(self, events: int, start: ReplayPoint) -> ManagedFetchRequest:
        if self._asked:
            return ManagedFetchRequest(num_requested=events)
        if is_id(self._reference):
            return ManagedFetchRequest(subscription_id=self._reference, num_requested=events)
        return ManagedFetchRequest(developer_name=self._reference, num_requested=events)

    @override
    def _is_answer(self, response: Any) -> bool:
        """True if it answers a commit.

        Its replay id and pending count are those of the last delivery.
        """
        if not response.HasField("commit_response"):
            return False
        answer = response.commit_response
        why = (answer.error.msg or "refused without a reason") if answer.HasField("error") else ""
        about = answered_commits(tuple(self._outstanding), answer.commit_request_id)
        if not about:
            log.debug(
                "Ignored an answer to commit %s, which is not outstanding.",
                answer.commit_request_id,
            )
        for request_id in about:
            _settle(self._outstanding.pop(request_id), why)
        return not response.events

    @override
    def _is_full(self) -> bool:
        """Read on for the answer to a commit.

        It comes behind requested events, a hundred at most.
        """
        return not self._outstanding and super()._is_full()

    @override
    async def _read_on(self) -> None:
        try:
            await super()._read_on()
        finally:
            self._give_up(self._end)

    def _give_up(self, why: SfEventsError | None) -> None:
        for answer in self._outstanding.values():
            _settle(answer, f"the stream ended before an answer came: {why}")
        self._outstanding.clear()


class ManagedStreamSource(SessionSource):
    """ManagedSubscribe streams of one managed subscription; `current` is the last one opened."""

    def __init__(
        self, calls: PubSubCalls, topic: str, look_up: LookUpTopic, reference: str
    ) -> None:
        super().__init__(calls, topic, look_up)
        self._reference = reference
        self.current: ManagedSubscribeCall | None = None

    @property
    @override
    def doing(self) -> str:
        return f"Subscribing to managed subscription {self._reference} at {self._calls.endpoint}"

    async def open(self) -> ManagedSubscribeCall:
        """Open a stream; Salesforce keeps its start."""
        self._session = await self._calls.session()
        self.current = ManagedSubscribeCall(
            self._calls.stream("ManagedSubscribe", self._session),
            self._reference,
            doing=self.doing,
            secret=self._session.token,
            clock=self._calls.clock,
        )
        return self.current


def _settle(answer: asyncio.Future[str], why: str) -> None:
    if not answer.done():
        answer.set_result(why)
