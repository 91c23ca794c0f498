"""Client of the Streaming API for workers and triggerers, with the methods that a batch needs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, Self

from airflow_provider_sfevents.exceptions import ConfigurationError, SchemaUnknownError
from airflow_provider_sfevents.pubsub.auth.session_cache import PROCESS_SESSIONS, SessionCache
from airflow_provider_sfevents.pubsub.bounds import StagedProgress
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls
from airflow_provider_sfevents.pubsub.schema_cache import PROCESS_SCHEMAS, SchemaCache
from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import BoundedFetch, interrupted_by
from airflow_provider_sfevents.pubsub.topic_names import TransportName, transport_for
from airflow_provider_sfevents.staging.manifest import JSON
from airflow_provider_sfevents.streaming import message_columns
from airflow_provider_sfevents.streaming.session_slots import slots_of
from airflow_provider_sfevents.streaming.streaming_session import TRIES, StreamingSession
from airflow_provider_sfevents.streaming.streaming_source import StreamingSource
from airflow_provider_sfevents.streaming.topic_schemas import read_schema

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import datetime
    from types import TracebackType

    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import (
        FetchResult,
        OnKeepalive,
        Receive,
    )
    from airflow_provider_sfevents.pubsub.streaming.delivery import ReceivedMessage
    from airflow_provider_sfevents.pubsub.streaming.event_time import EventTime
    from airflow_provider_sfevents.replay_point import ReplayPoint
    from airflow_provider_sfevents.staging.manifest import PayloadFormat
    from airflow_provider_sfevents.streaming.bayeux_messages import StreamedEvent
    from airflow_provider_sfevents.streaming.topic_schemas import TopicSchema

_NO_LIMIT = 1_000_000_000


class StreamingTopicClient:
    """Use as `async with StreamingTopicClient(settings) as client:`.

    Every fetch has a session of its own, so that each has its own replay point.

    :cvar payload_format: form of the payloads in deliveries.
    :param before_fetch: as of `PubSubClient`.
    """

    payload_format: ClassVar[PayloadFormat] = JSON

    def __init__(
        self,
        settings: Settings,
        *,
        sessions: SessionCache = PROCESS_SESSIONS,
        schemas: SchemaCache = PROCESS_SCHEMAS,
        clock: Clock | None = None,
        before_fetch: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._settings = settings
        self._sessions = sessions
        self._schemas = schemas
        self._clock = clock or Clock()
        self._before_fetch = before_fetch
        self._rest = RestCalls(settings, sessions=sessions, clock=self._clock)
        self._of_topic: dict[str, TopicSchema] = {}
        self._own: dict[str, str] = {}
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._rest.__aexit__(kind, error, trace)

    async def session(self) -> Session:
        """The session in use; logs in if there is none."""
        return await self._rest.session()

    async def require_readable(self, topic: str) -> None:
        """Check that the org has a PushTopic or generic channel.

        Topics that both APIs have are checked by the subscription itself.

        :raises TopicError: it has not; raised before an event is requested.
        """
        if _has_no_schema(topic):
            await self._schema_of(topic)

    async def get_schema(self, schema_id: str) -> str:
        """The Avro schema as JSON, also of events that Salesforce has no schema for.

        :raises SchemaUnknownError: there is no schema of this id.
        :raises TransportError: it cannot be fetched just now.
        """
        if schema_id in self._own:
            return self._own[schema_id]
        org_id = (await self.session()).org_id

        async def fetch() -> str:
            doing = f"Getting the schema with id {schema_id!r} of org {org_id}"
            if not schema_id.strip() or "/" in schema_id:
                raise SchemaUnknownError(f"{doing} failed: it is no id of a schema.")
            path = f"/event/eventSchema/{schema_id}"
            try:
                found, _ = await self._rest.get(path, doing, {"payloadFormat": "COMPACT"})
            except ConfigurationError as error:
                raise SchemaUnknownError(str(error)) from error
            return _avro(found)

        return await self._schemas.get(org_id, schema_id, fetch)

    @staticmethod
    def event_time_reader(_schema: str) -> EventTime:
        """Return the reader of the creation time of messages, the same for all schemas."""
        return message_columns.event_time

    async def times_of(self, schema_id: str) -> EventTime:
        """Return the reader of the creation time of messages; no schema is fetched for it."""
        return self.event_time_reader(schema_id)

    async def fetch(
        self,
        topic: str,
        start: ReplayPoint,
        bounds: Bounds,
        receive: Receive,
        already: StagedProgress = StagedProgress(),  # noqa: B008 - a frozen value
        stop: asyncio.Event | None = None,
        on_keepalive: OnKeepalive | None = None,
        *,
        outlast: bool = False,
        listened_at: datetime | None = None,
        passed_over: Callable[[int], None] | None = None,
    ) -> FetchResult:
        """Fetch one batch, as `PubSubClient.fetch`; no session is left open.

        :param on_keepalive: at `latest` it gets the text of the time that it stands for, at once.
        :param listened_at: as of `StreamingSource`.
        :param passed_over: called with the number of events so far that were created before the
            start.
        :raises SfEventsError: a terminal error before the first event.
        """
        await self.require_readable(topic)
        if self._before_fetch is not None:
            await self._before_fetch(topic)
        with interrupted_by(stop) as interrupt:
            source = StreamingSource(
                partial(self._new_session, outlast=outlast),
                topic,
                start,
                self._clock,
                interrupt,
                columns=partial(self._columns, topic),
                on_time=on_keepalive,
                listened_at=listened_at,
                passed_over=passed_over,
                slots=slots_of(self._settings),
            )
            batch = BoundedFetch(
                source,
                replace(bounds, learn_seconds=None),
                receive,
                on_keepalive=on_keepalive,
                already=already,
                stopped=stop.is_set if stop is not None else None,
                times_of=self.times_of,
                clock=self._clock,
            )
            return await batch.run()

    def managed(self, reference: str, topic: str) -> NoReturn:
        """Refuse a managed subscription, which only the Pub/Sub API has.

        :raises ConfigurationError: always.
        """
        raise ConfigurationError(
            f"Managed subscription {reference!r} of {topic} is one of the Pub/Sub API. Leave "
            "transport='streaming' out, or keep the position in another store."
        )

    def _new_session(self, *, outlast: bool) -> StreamingSession:
        return StreamingSession(
            self._settings,
            tries=_NO_LIMIT if outlast else TRIES,
            sessions=self._sessions,
            clock=self._clock,
        )

    async def _columns(self, topic: str, events: Sequence[StreamedEvent]) -> list[ReceivedMessage]:
        if not _has_no_schema(topic):
            return [message_columns.received(one, "") for one in events]
        schema = await self._schema_of(topic)
        if any(message_columns.unknown_field(one, schema.fields) for one in events):
            del self._of_topic[topic]  # the PushTopic's query has changed
            schema = await self._schema_of(topic)
        return [message_columns.received(one, schema.schema_id) for one in events]

    async def _schema_of(self, topic: str) -> TopicSchema:
        async with self._lock:
            if topic not in self._of_topic:
                schema = await read_schema(self._rest, topic)
                self._of_topic[topic] = schema
                self._own[schema.schema_id] = schema.text
            return self._of_topic[topic]


def _has_no_schema(topic: str) -> bool:
    return transport_for(topic) is TransportName.STREAMING


def _avro(found: Any) -> str:
    """The schema of an answer, without the id that REST adds to it."""
    return json.dumps({name: value for name, value in found.items() if name != "uuid"})
