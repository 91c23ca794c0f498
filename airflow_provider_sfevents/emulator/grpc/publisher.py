"""Publishing of one request's events, for Publish and PublishStream."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.bus.payload_codec import codec_for, milliseconds
from airflow_provider_sfevents.emulator.bus.topic import EncodedEvent
from airflow_provider_sfevents.emulator.errors import EmulatorError, RefusalError
from airflow_provider_sfevents.emulator.state.publish_allocation import OVER
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.bus.topic import BusTopic
    from airflow_provider_sfevents.emulator.grpc.incoming_calls import (
        AuthenticatedCall,
        IncomingCalls,
    )
    from airflow_provider_sfevents.emulator.knobs import Knobs
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState


class RequestPublisher:
    """Publishes clients' events on the bus of their org."""

    def __init__(self, state: EmulatorState, calls: IncomingCalls) -> None:
        self._state = state
        self._knobs: Knobs = state.knobs
        self._calls = calls

    def check(self, request: Any) -> None:
        """Check a request before its topic.

        :raises RefusalError: the request is too large.
        """
        if request.ByteSize() > self._knobs.max_request_bytes:
            raise RefusalError(
                "", "UNAVAILABLE", "upstream connect error or disconnect/reset before headers"
            )

    def topic(self, name: str, caller: AuthenticatedCall) -> BusTopic:
        """Topic to publish to.

        :raises RefusalError: the topic does not exist, or clients cannot publish to it.
        """
        if not name.strip():
            raise RefusalError("publish.topic.validation.empty")
        topic = self._calls.topic(name, caller)
        if not topic.can_publish:
            raise RefusalError("publish.topic.cannot.publish")
        return topic

    def answer(
        self, request: Any, topic: BusTopic, caller: AuthenticatedCall
    ) -> pb.PublishResponse:
        """Publish the events of a request, with one result for each.

        :raises RefusalError: the request has no events, or the org has used up its allocation.
        """
        if not request.events:
            raise RefusalError("publish.event.count.invalid")
        results = self._results(request.events, topic, caller)
        return pb.PublishResponse(results=results, schema_id=topic.schema_id, rpc_id=caller.rpc_id)

    def _results(
        self, events: Any, topic: BusTopic, caller: AuthenticatedCall
    ) -> list[pb.PublishResult]:
        """Results in the order of the events; a refused event does not affect the others."""
        keys = [event.id or str(uuid.uuid4()) for event in events]
        errors = self._within_limit(
            [self._event_error(event, topic, caller.bus) for event in events], caller
        )
        good = [
            EncodedEvent(key, event.schema_id, self._payload(event, caller))
            for key, event, error in zip(keys, events, errors, strict=True)
            if not error
        ]
        replay_ids = iter(caller.bus.append(topic.name, good))
        return [
            pb.PublishResult(correlation_key=key, error=pb.Error(code=pb.PUBLISH, msg=error))
            if error
            else pb.PublishResult(correlation_key=key, replay_id=next(replay_ids))
            for key, error in zip(keys, errors, strict=True)
        ]

    def _within_limit(self, errors: list[str], caller: AuthenticatedCall) -> list[str]:
        """Errors, with those of the events beyond the hourly allocation.

        :raises RefusalError: events are beyond it, and the knob `publish_over` is `status`.
        """
        allowed = self._state.publishing.take(caller.session.org_id, errors.count(""))
        if allowed < errors.count("") and self._knobs.publish_over == "status":
            raise RefusalError("", "RESOURCE_EXHAUSTED", OVER)
        within: list[str] = []
        for error in errors:
            over = not error and allowed <= 0
            allowed -= not error
            within.append(OVER if over else error)
        return within

    def _event_error(self, event: pb.ProducerEvent, topic: BusTopic, bus: Bus) -> str:
        """Reason why an event cannot be published; empty if it can.

        The texts are the emulator's own; Salesforce publishes none.
        """
        limit = self._knobs.max_event_bytes
        if len(event.payload) > limit:
            return f"The event has {len(event.payload)} bytes; the limit is {limit}."
        if bus.schema(event.schema_id) is None:
            return f"The schema ID {event.schema_id!r} is unknown."
        if self._knobs.old_schema_publish == "refuse" and event.schema_id != topic.schema_id:
            return (
                f"The schema ID {event.schema_id!r} is not the topic's newest, {topic.schema_id}."
            )
        return ""

    def _payload(self, event: pb.ProducerEvent, caller: AuthenticatedCall) -> bytes:
        """Payload as published; one that does not decode, or has no stamps, stays unchanged."""
        if not self._knobs.stamp_created:
            return event.payload
        codec = codec_for(caller.bus.schema(event.schema_id) or "")
        stamp = {
            "CreatedDate": milliseconds(self._state.clock.now()),
            "CreatedById": caller.session.user_id,
        }
        try:
            return codec.encode({**codec.decode(event.payload), **stamp})
        except EmulatorError:
            return event.payload
