"""RPC methods of the Pub/Sub service."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
from grpc import aio

from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.faults.http2_frames import order
from airflow_provider_sfevents.emulator.grpc.event_stream import ServedSubscribe
from airflow_provider_sfevents.emulator.grpc.incoming_calls import (
    AuthenticatedCall,
    Context,
    IncomingCalls,
    RefusalStatus,
)
from airflow_provider_sfevents.emulator.grpc.managed_subscribe import ServedManagedSubscribe
from airflow_provider_sfevents.emulator.grpc.publisher import RequestPublisher
from airflow_provider_sfevents.emulator.grpc.publishing_stream import ServedPublishStream
from airflow_provider_sfevents.emulator.managed import subscription_rules
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from airflow_provider_sfevents.emulator.bus.topic import BusTopic
    from airflow_provider_sfevents.emulator.grpc.event_stream import ServedDelivery
    from airflow_provider_sfevents.emulator.managed.subscription_config import ManagedConfig
    from airflow_provider_sfevents.emulator.state.emulator_state import EmulatorState

SERVICE = "eventbus.v1.PubSub"


class Servicer:
    """Answers RPCs from the emulator's state."""

    def __init__(self, state: EmulatorState) -> None:
        self._state = state
        self._calls = IncomingCalls(state)
        self._publisher = RequestPublisher(state, self._calls)

    def handler(self) -> grpc.GenericRpcHandler:
        """Handler of all RPCs.

        Responses with events are already encoded on the bus, so these have no serializer.
        """
        unary, streaming = (
            grpc.unary_unary_rpc_method_handler,
            grpc.stream_stream_rpc_method_handler,
        )
        methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
            "Subscribe": streaming(
                self._streaming("Subscribe", self._subscribe), pb.FetchRequest.FromString
            ),
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
            "PublishStream": streaming(
                self._streaming("PublishStream", self._publish_stream),
                pb.PublishRequest.FromString,
                _encoded,
            ),
            "ManagedSubscribe": streaming(
                self._streaming("ManagedSubscribe", self._managed_subscribe),
                pb.ManagedFetchRequest.FromString,
            ),
        }
        return grpc.method_handlers_generic_handler(SERVICE, methods)

    # --- unary ------------------------------------------------------------------------------------

    def _unary(
        self, rpc: str, answer: Callable[[Any, AuthenticatedCall], Any]
    ) -> Callable[[Any, Context], Awaitable[Any]]:
        """Handler of an RPC with one request and one response."""

        async def call(request: Any, context: Context) -> Any:
            rpc_id = self._calls.rpc_id()
            async with RefusalStatus(self._state, rpc, rpc_id, context):
                await self._calls.round_trip()
                caller = self._calls.authentic(rpc, rpc_id, context, _subject(request))
                if fault := self._state.faults.take(rpc):
                    await asyncio.sleep(fault.after_seconds or 0)
                    if fault.late:
                        answer(request, caller)
                    if not fault.how:
                        raise fault.refusal
                    return order(fault.how)
                return answer(request, caller)

        return call

    def _get_topic(self, request: pb.TopicRequest, caller: AuthenticatedCall) -> pb.TopicInfo:
        topic = self._calls.topic(request.topic_name, caller)
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

    def _get_schema(self, request: pb.SchemaRequest, caller: AuthenticatedCall) -> pb.SchemaInfo:
        if not request.schema_id.strip():
            raise RefusalError("schema.validation.failed")
        schema = caller.bus.schema(request.schema_id)
        if schema is None or caller.bus.has_forgotten(request.schema_id):
            raise RefusalError(
                self._state.knobs.unknown_schema_code,
                self._state.knobs.unknown_schema,
                f"An error occurred while getting the schema {request.schema_id}.",
            )
        return pb.SchemaInfo(schema_json=schema, schema_id=request.schema_id, rpc_id=caller.rpc_id)

    def _publish(self, request: pb.PublishRequest, caller: AuthenticatedCall) -> pb.PublishResponse:
        self._publisher.check(request)
        topic = self._publisher.topic(request.topic_name, caller)
        return self._publisher.answer(request, topic, caller)

    # --- streams ----------------------------------------------------------------------------------

    def _streaming(
        self, rpc: str, serve: Callable[[Any, AuthenticatedCall, Context], Awaitable[None]]
    ) -> Callable[[Any, Context], Awaitable[None]]:
        """Handler of a streaming RPC; it starts with the first request."""

        async def call(_requests: Any, context: Context) -> None:
            rpc_id = self._calls.rpc_id()
            async with RefusalStatus(self._state, rpc, rpc_id, context):
                first = await context.read()
                if first is aio.EOF:
                    self._calls.check_headers(rpc, context)
                    return
                await self._calls.round_trip()
                caller = self._calls.authentic(rpc, rpc_id, context, _subject(first))
                with self._state.protection.clients.holding(caller.session.org_id):
                    await serve(first, caller, context)

        return call

    async def _subscribe(self, first: Any, caller: AuthenticatedCall, context: Context) -> None:
        self._subscribable(first.topic_name, caller)
        parts = self._parts(first.topic_name, caller, context)
        await self._serve(ServedSubscribe(topic=first.topic_name, **parts), first, parts)

    async def _managed_subscribe(
        self, first: Any, caller: AuthenticatedCall, context: Context
    ) -> None:
        config = self._managed(first, caller)
        self._subscribable(config.topic, caller)
        registry = self._state.managed[caller.session.org_id]
        if not registry.take_slot(config.id):
            raise RefusalError("managed.subscription.already.active")
        try:
            parts = self._parts(config.topic, caller, context, managed=config.developer_name)
            stream = ServedManagedSubscribe(config=config, registry=registry, **parts)
            await self._serve(stream, first, parts)
        finally:
            registry.leave_slot(config.id)

    def _managed(self, first: Any, caller: AuthenticatedCall) -> ManagedConfig:
        """Subscription named by a first request.

        :raises RefusalError: the request is invalid, or the subscription cannot be served.
        """
        registry = self._state.managed[caller.session.org_id]
        name = subscription_rules.wanted(first, self._state.knobs.managed_id_and_name)
        config = registry.known(name)
        if config is None and not registry.was_deleted(name):
            raise subscription_rules.unknown(first)
        subscription_rules.check_state(config.state if config else None)
        assert config is not None  # noqa: S101 - for the type checker; the line above refuses None
        return config

    async def _publish_stream(
        self, first: Any, caller: AuthenticatedCall, context: Context
    ) -> None:
        stream = ServedPublishStream(
            context=context, state=self._state, caller=caller, publisher=self._publisher
        )
        with self._state.running.holding(stream):
            await stream.run(first)

    def _subscribable(self, name: str, caller: AuthenticatedCall) -> BusTopic:
        """Topic to subscribe to.

        :raises RefusalError: it does not exist, or cannot be subscribed to.
        """
        topic = self._calls.topic(name, caller)
        if not topic.can_subscribe:
            raise RefusalError("subscription.topic.cannot.subscribe")
        return topic

    def _parts(
        self, topic: str, caller: AuthenticatedCall, context: Context, managed: str = ""
    ) -> dict[str, Any]:
        """Arguments of a stream, with a new entry in the call log."""
        session = caller.session
        subscription = self._state.call_log.subscribed(
            topic=topic,
            managed=managed,
            org_id=session.org_id,
            client=session.client,
            username=session.username,
            started_at=self._state.clock.now(),
        )
        return {
            "context": context,
            "bus": caller.bus,
            "state": self._state,
            "session": session,
            "subscription": subscription,
            "rpc_id": caller.rpc_id,
        }

    async def _serve(self, stream: ServedDelivery, first: Any, parts: dict[str, Any]) -> None:
        call_log, subscription = self._state.call_log, parts["subscription"]
        try:
            status = await stream.run(first)
            call_log.ended(subscription, status)
        except RefusalError as refusal:
            call_log.ended(subscription, refusal.status)
            raise
        finally:
            # Any other end: the client cancelled, or its connection is gone.
            call_log.ended(subscription, "CANCELLED")
        if status != "OK":
            raise RefusalError(
                "", status, "The stream was closed: nothing was requested for too long."
            )


def _encoded(answer: Any) -> bytes:
    """Encode an answer; an order to cut the connection is bytes already."""
    return answer if isinstance(answer, bytes) else answer.SerializeToString()


def _subject(request: Any) -> str:
    """Subject of a call: a topic, a schema or a managed subscription."""
    names = ("topic_name", "schema_id", "subscription_id", "developer_name")
    return next((str(value) for name in names if (value := getattr(request, name, ""))), "")
