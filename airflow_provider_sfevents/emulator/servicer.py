"""The RPC methods: headers checked, request recorded, answered or refused with the trailers Salesforce sends."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from airflow_provider_sfevents.emulator import ids
from airflow_provider_sfevents.emulator.bus import Bus, Encoded, Topic
from airflow_provider_sfevents.emulator.errors import Refusal
from airflow_provider_sfevents.emulator.frames import order
from airflow_provider_sfevents.emulator.records import Call
from airflow_provider_sfevents.emulator.stream import SubscribeStream
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from airflow_provider_sfevents.emulator.sessions import Session
    from airflow_provider_sfevents.emulator.state import State

SERVICE = "eventbus.v1.PubSub"
# A client that went away shows as a cancelled task, or as a failed read or write; gRPC takes the first as no error.
_GONE = (aio.UsageError, aio.InternalError)
Context = Any  # grpc.aio.ServicerContext; its generic parameters say nothing here


@dataclass(frozen=True, slots=True, kw_only=True)
class Authentic:
    """A call whose headers were good: who calls, which bus, under which rpc id."""

    session: Session
    bus: Bus
    rpc_id: str


class Servicer:
    """Answers RPCs out of the emulator's state."""

    def __init__(self, state: State) -> None:
        self._state = state

    def handler(self) -> grpc.GenericRpcHandler:
        """All RPCs of the service. Subscribe's responses come encoded from the bus, hence no serializer."""
        unary, streaming = (
            grpc.unary_unary_rpc_method_handler,
            grpc.stream_stream_rpc_method_handler,
        )
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Subscribe": streaming(self._subscribe, pb.FetchRequest.FromString),
            "GetTopic": unary(
                self._unary("GetTopic", self._get_topic),
                pb.TopicRequest.FromString,
                _encoded,
            ),
            "GetSchema": unary(
                self._unary("GetSchema", self._get_schema),
                pb.SchemaRequest.FromString,
                _encoded,
            ),
            "Publish": unary(
                self._unary("Publish", self._publish),
                pb.PublishRequest.FromString,
                _encoded,
            ),
            "PublishStream": streaming(self._unimplemented),
            "ManagedSubscribe": streaming(self._unimplemented),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    # --- unary -------------------------------------------------------------------------------------------------------

    def _unary(
        self, rpc: str, answer: Callable[[Any, Authentic], Any]
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        """RPC that answers one request with one response."""

        async def call(request: Any, context: Context) -> Any:
            rpc_id = self._rpc_id()
            async with _Refusing(self._state, rpc, rpc_id, context):
                if self._state.knobs.round_trip_seconds:
                    await asyncio.sleep(self._state.knobs.round_trip_seconds)
                caller = self._authentic(rpc, rpc_id, context, _subject(request))
                if fault := self._state.faults.take(rpc):
                    await asyncio.sleep(fault.after_seconds or 0)
                    if not fault.how:
                        raise fault.refusal
                    return order(fault.how)
                return answer(request, caller)

        return call

    def _get_topic(self, request: pb.TopicRequest, caller: Authentic) -> pb.TopicInfo:
        topic = self._topic(request.topic_name, caller)
        schema_id = topic.schema_id
        if topic.members and self._state.knobs.channel_schema == "first":
            first = caller.bus.topic(topic.members[0])
            schema_id = first.schema_id if first else ""
        return pb.TopicInfo(
            topic_name=topic.name,
            tenant_guid=f"core/prod/{caller.session.org_id}",
            can_publish=topic.can_publish,
            can_subscribe=topic.can_subscribe,
            schema_id=schema_id,
            rpc_id=caller.rpc_id,
        )

    def _get_schema(self, request: pb.SchemaRequest, caller: Authentic) -> pb.SchemaInfo:
        if not request.schema_id.strip():
            raise Refusal("schema.validation.failed")
        schema = caller.bus.schema(request.schema_id)
        if schema is None or caller.bus.has_forgotten(request.schema_id):
            raise Refusal(
                self._state.knobs.unknown_schema_code,
                self._state.knobs.unknown_schema,
                f"An error occurred while getting the schema {request.schema_id}.",
            )
        return pb.SchemaInfo(schema_json=schema, schema_id=request.schema_id, rpc_id=caller.rpc_id)

    def _publish(self, request: pb.PublishRequest, caller: Authentic) -> pb.PublishResponse:
        if request.ByteSize() > self._state.knobs.max_request_bytes:
            raise Refusal(
                "", "UNAVAILABLE", "upstream connect error or disconnect/reset before headers"
            )
        if not request.topic_name.strip():
            raise Refusal("publish.topic.validation.empty")
        topic = self._topic(request.topic_name, caller)
        if not topic.can_publish:
            raise Refusal("publish.topic.cannot.publish")
        if not request.events:
            raise Refusal("publish.event.count.invalid")
        results = self._results(request, topic, caller.bus)
        return pb.PublishResponse(results=results, schema_id=topic.schema_id, rpc_id=caller.rpc_id)

    def _results(
        self, request: pb.PublishRequest, topic: Topic, bus: Bus
    ) -> list[pb.PublishResult]:
        """One result for each event, in order; what is refused leaves the others alone."""
        keys = [event.id or str(uuid.uuid4()) for event in request.events]
        errors = [self._event_error(event, bus) for event in request.events]
        good = [
            Encoded(key, event.schema_id, event.payload)
            for key, event, error in zip(keys, request.events, errors, strict=True)
            if not error
        ]
        replay_ids = iter(bus.append(topic.name, good))
        return [
            pb.PublishResult(correlation_key=key, error=pb.Error(code=pb.PUBLISH, msg=error))
            if error
            else pb.PublishResult(correlation_key=key, replay_id=next(replay_ids))
            for key, error in zip(keys, errors, strict=True)
        ]

    def _event_error(self, event: pb.ProducerEvent, bus: Bus) -> str:
        """Why this event cannot be published; the texts are ours, Salesforce publishes none."""
        limit = self._state.knobs.max_event_bytes
        if len(event.payload) > limit:
            return f"The event has {len(event.payload)} bytes; the limit is {limit}."
        if bus.schema(event.schema_id) is None:
            return f"The schema ID {event.schema_id!r} is unknown."
        return ""

    # --- streams -----------------------------------------------------------------------------------------------------

    async def _subscribe(self, _requests: Any, context: Context) -> None:
        rpc_id = self._rpc_id()
        async with _Refusing(self._state, "Subscribe", rpc_id, context):
            first = await context.read()
            if first is aio.EOF:
                return
            if self._state.knobs.round_trip_seconds:
                await asyncio.sleep(self._state.knobs.round_trip_seconds)
            caller = self._authentic("Subscribe", rpc_id, context, first.topic_name)
            topic = self._topic(first.topic_name, caller)
            if not topic.can_subscribe:
                raise Refusal("subscription.topic.cannot.subscribe")
            await self._stream(first, caller, context)

    async def _stream(self, first: pb.FetchRequest, caller: Authentic, context: Context) -> None:
        state, session = self._state, caller.session
        subscription = state.records.subscribed(
            topic=first.topic_name,
            org_id=session.org_id,
            client=session.client,
            username=session.username,
            started_at=state.clock.now(),
        )
        stream = SubscribeStream(
            topic=first.topic_name,
            context=context,
            bus=caller.bus,
            state=state,
            session=session,
            subscription=subscription,
            rpc_id=caller.rpc_id,
        )
        try:
            status = await stream.run(first)
            state.records.ended(subscription, status)
        except Refusal as refusal:
            state.records.ended(subscription, refusal.status)
            raise
        finally:
            # Whatever else ended it: the client cancelled, or its connection is gone.
            state.records.ended(subscription, "CANCELLED")
        if status != "OK":
            raise Refusal("", status, "The stream was closed: nothing was requested for too long.")

    async def _unimplemented(self, _requests: Any, context: Context) -> None:
        await context.abort(
            grpc.StatusCode.UNIMPLEMENTED, "This version of the emulator does not imitate this RPC."
        )

    # --- for all -----------------------------------------------------------------------------------------------------

    def _rpc_id(self) -> str:
        return ids.rpc_id(self._state.knobs.rpc_id_style)

    def _authentic(self, rpc: str, rpc_id: str, context: Context, subject: str) -> Authentic:
        """Record the call, check its headers.

        :raises Refusal: when they are not good.
        """
        self._state.carries(context.peer(), rpc)
        metadata = dict(context.invocation_metadata() or ())
        call = Call(
            rpc=rpc, at=self._state.clock.now(), metadata=tuple(sorted(metadata)), subject=subject
        )
        try:
            session = self._state.sessions.authenticate(metadata)
        except Refusal:
            self._state.records.call(call)
            raise
        self._state.records.call(replace(call, org_id=session.org_id, client=session.client))
        return Authentic(session=session, bus=self._state.bus(session.org_id), rpc_id=rpc_id)

    def _topic(self, name: str, caller: Authentic) -> Topic:
        """Find a topic by its exact name.

        :raises Refusal: when this org has none; names are case-sensitive.
        """
        if not name.strip():
            raise Refusal("topic.validation.empty")
        topic = caller.bus.topic(name)
        if topic is not None:
            return topic
        if self._state.knobs.unknown_topic == "NOT_FOUND":
            raise Refusal("topic.not.found", message=f"The topic {name} was not found.")
        raise Refusal(
            "topic.meta.permission",
            message=f"An error occurred while getting the metadata for org CORE/prod/{caller.session.org_id} and topic "
            f"{name}. Ensure the credentials and topic name are correct.",
        )


class _Refusing:
    """Turns a refusal into the call's status and trailers; notes any other error as a defect of the emulator."""

    def __init__(self, state: State, rpc: str, rpc_id: str, context: Context) -> None:
        self._state, self._rpc, self._rpc_id, self._context = state, rpc, rpc_id, context

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        try:
            if isinstance(error, Refusal):
                await self._abort(error)
        except _GONE as gone:
            raise asyncio.CancelledError from gone
        if isinstance(error, _GONE):
            raise asyncio.CancelledError from error
        if isinstance(error, Exception) and not isinstance(error, aio.AbortError):
            self._state.defect(error)

    async def _abort(self, refusal: Refusal) -> None:
        trailers = (
            ("error-code", refusal.error_code),
            ("rpc-id", self._rpc_id),
            ("type", self._rpc),
        )
        await self._context.abort(
            grpc.StatusCode[refusal.status],
            f"{refusal.message} rpcId: {self._rpc_id}" if refusal.code else refusal.message,
            trailers if refusal.code else (),
        )


def _encoded(answer: Any) -> bytes:
    """Bytes of an answer; an order to cut the connection is bytes already."""
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


def _subject(request: Any) -> str:
    return str(getattr(request, "topic_name", "") or getattr(request, "schema_id", ""))
