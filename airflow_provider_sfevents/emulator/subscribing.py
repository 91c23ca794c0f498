"""One Subscribe call: what its requests ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from airflow_provider_sfevents.emulator.errors import Refusal
from airflow_provider_sfevents.emulator.records import Fetch
from airflow_provider_sfevents.emulator.stream import EventStream
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from typing import Any


class SubscribeStream(EventStream):
    """The client says where to start, and keeps the replay ids."""

    rpc: ClassVar[str] = "Subscribe"

    @override
    def _begin(self, first: Any) -> int:
        self._records.asked(self._subscription, _fetch(first), self._flow.pending)
        self._subscription.start = _start(first)
        place = self._bus.start(first.replay_preset, first.replay_id)
        self._flow.request(first.num_requested)
        return self._resumed(place) if first.replay_preset == pb.CUSTOM else place

    @override
    def _take(self, request: Any) -> None:
        self._records.asked(self._subscription, _fetch(request), self._flow.pending)
        if request.topic_name not in {"", self._topic}:
            raise Refusal("subscription.fetch.topic.mismatch")
        if request.auth_refresh:
            self._refresh(request.auth_refresh)
            if not request.num_requested:
                return
        self._flow.request(request.num_requested)


def _fetch(request: Any) -> Fetch:
    return Fetch(
        topic=request.topic_name,
        replay_preset=_preset(request.replay_preset),
        replay_id=request.replay_id,
        num_requested=request.num_requested,
    )


def _start(request: Any) -> str:
    if request.replay_preset == pb.CUSTOM:
        return str(request.replay_id.hex())
    return _preset(request.replay_preset).lower()


def _preset(number: int) -> str:
    """Name of a preset; a client may send numbers that have none."""
    known = number in pb.ReplayPreset.values()
    return str(pb.ReplayPreset.Name(number)) if known else str(number)
