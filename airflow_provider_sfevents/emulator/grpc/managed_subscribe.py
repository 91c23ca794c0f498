"""One ManagedSubscribe call: delivery as for Subscribe, plus commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from airflow_provider_sfevents.emulator.grpc.commit_requests import CommitOutcome, PendingCommits
from airflow_provider_sfevents.emulator.grpc.credit_flow import AnswerCommits
from airflow_provider_sfevents.emulator.grpc.event_stream import ServedDelivery
from airflow_provider_sfevents.emulator.managed import subscription_rules
from airflow_provider_sfevents.emulator.state.call_log import RecordedCommit, RecordedFetch
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.grpc.credit_flow import Step
    from airflow_provider_sfevents.emulator.managed.subscription_config import ManagedConfig
    from airflow_provider_sfevents.emulator.managed.subscription_registry import ManagedRegistry


class ServedManagedSubscribe(ServedDelivery):
    """ManagedSubscribe: the org determines the start and keeps the committed replay ids.

    :param config: the subscription; this stream holds its slot.
    """

    rpc: ClassVar[str] = "ManagedSubscribe"

    def __init__(self, *, config: ManagedConfig, registry: ManagedRegistry, **parts: Any) -> None:
        super().__init__(topic=config.topic, **parts)
        self._config = config
        self._registry = registry
        self._commits = PendingCommits(knobs=self._knobs, at=self._began)
        self._delivered = 0

    # --- requests ---------------------------------------------------------------------------------

    @override
    def _begin(self, first: Any) -> int:
        position, self._subscription.start = self._registry.start(self._config)
        self._delivered = position
        self._credit(first)
        resumes = self._subscription.start not in {"latest", "earliest"}
        return self._resumed(position) if resumes else position

    @override
    def _take(self, request: Any) -> None:
        subscription_rules.check_later(request)
        if request.auth_refresh:
            self._refresh(request.auth_refresh)
        self._credit(request)
        if request.HasField("commit_replay_id_request"):
            self._commit(request.commit_replay_id_request)

    def _credit(self, request: Any) -> None:
        fetch = RecordedFetch(
            topic=self._topic, replay_preset="", replay_id=b"", num_requested=request.num_requested
        )
        self._call_log.asked(self._subscription, fetch, self._flow.pending)
        if request.num_requested:
            self._flow.request(request.num_requested)

    def _commit(self, asked: Any) -> None:
        """Commit a replay id. The result is answered later and does not end the stream."""
        error = self._registry.commit(self._config.id, asked.replay_id, self._delivered)
        now = self._state.clock.timestamp()
        self._call_log.committed(
            self._subscription,
            RecordedCommit(
                request_id=asked.commit_request_id, replay_id=asked.replay_id, error=error
            ),
        )
        outcome = CommitOutcome(asked.commit_request_id, asked.replay_id, error, int(now * 1000))
        self._commits.received(outcome, self._loop.time())

    # --- responses --------------------------------------------------------------------------------

    @override
    def _check(self) -> None:
        super()._check()
        known = self._registry.known_by_id(self._config.id)
        subscription_rules.check_state(known.state if known else None)

    @override
    def _next_step(self) -> Step:
        step = super()._next_step()
        if self._flow.closing:
            return step
        return self._commits.next_step(self._loop.time(), step)

    @override
    async def _wait(self, seconds: float) -> None:
        """Wait, at most until an answer is due or a change of the config takes effect."""
        limits = [seconds, self._commits.left(self._loop.time())]
        if spreads := self._registry.spreads_in(self._config.id):
            limits.append(spreads)
        await super()._wait(min(limits))

    @override
    async def _write(self, body: bytes, position: int, events: int) -> None:
        self._delivered = max(self._delivered, position)
        self._registry.delivered(self._config.id, self._delivered)
        await super()._write(body, position, events)

    @override
    async def _carry_out(self, step: Step) -> None:
        if isinstance(step, AnswerCommits):
            await self._answer()
        else:
            await super()._carry_out(step)

    async def _answer(self) -> None:
        for outcome in self._commits.take():
            self._flow.responded(self._loop.time())
            self._call_log.answered(self._subscription)
            response = pb.ManagedFetchResponse(
                latest_replay_id=self._bus.replay_id(self._delivered),
                rpc_id=self._rpc_id,
                pending_num_requested=self._flow.pending,
                commit_response=_response(outcome),
            )
            await self._context.write(response.SerializeToString())


def _response(outcome: CommitOutcome) -> pb.CommitReplayResponse:
    """Answer to a commit; without an error it has succeeded."""
    response = pb.CommitReplayResponse(
        commit_request_id=outcome.request_id,
        replay_id=outcome.replay_id,
        process_time=outcome.received_ms,
    )
    if outcome.error:
        response.error.CopyFrom(pb.Error(code=pb.COMMIT, msg=outcome.error))
    return response
