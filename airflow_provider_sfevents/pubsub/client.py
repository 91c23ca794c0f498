"""Client of the Pub/Sub API for workers and triggerers: topics, schemas, fetches, publishing."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Self

from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    SchemaUnknownError,
    TopicError,
    TransportError,
)
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb2
from airflow_provider_sfevents.pubsub.auth.session_cache import PROCESS_SESSIONS, SessionCache
from airflow_provider_sfevents.pubsub.bounds import Bounds, StagedProgress
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.credit import MAX_CREDIT
from airflow_provider_sfevents.pubsub.keyed_lock import KeyedLock
from airflow_provider_sfevents.pubsub.managed.managed_subscription import ManagedSubscription
from airflow_provider_sfevents.pubsub.publishing.publish_client import PublishClient
from airflow_provider_sfevents.pubsub.pubsub_calls import PubSubCalls
from airflow_provider_sfevents.pubsub.reconnect import next_step
from airflow_provider_sfevents.pubsub.schema_cache import PROCESS_SCHEMAS, SchemaCache
from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import (
    BoundedFetch,
    DeliverySource,
    FetchResult,
    OnKeepalive,
    Receive,
    interrupted_by,
)
from airflow_provider_sfevents.pubsub.streaming.event_time import EventTime, event_time_reader
from airflow_provider_sfevents.pubsub.streaming.shared_subscription import SharedStreams
from airflow_provider_sfevents.pubsub.streaming.stream_position import JoinRequest
from airflow_provider_sfevents.pubsub.streaming.stream_source import TopicStreamSource
from airflow_provider_sfevents.pubsub.streaming.subscription import Subscription
from airflow_provider_sfevents.pubsub.timeouts import Timeouts
from airflow_provider_sfevents.pubsub.topic_names import check_pubsub_topic
from airflow_provider_sfevents.staging.manifest import AVRO

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        Awaitable,
        Callable,
        Collection,
        Mapping,
        Sequence,
    )
    from types import TracebackType

    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.pubsub.publishing.event_encoder import PublishResult
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.replay_point import ReplayPoint
    from airflow_provider_sfevents.staging.manifest import PayloadFormat

_LISTEN_SECONDS = 3600.0  # an endless subscription wakes up this often; nothing depends on it


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    """Answer of GetTopic.

    :param schema_id: id of the topic's newest schema, which may differ from the schema of an event.
        Empty for a channel of several types.
    :param rpc_id: id of the call, for Salesforce's support.
    """

    name: str
    tenant_guid: str
    can_publish: bool
    can_subscribe: bool
    schema_id: str
    rpc_id: str = field(default="", compare=False)


class PubSubClient:
    """Use as `async with PubSubClient(settings) as client:`.

    The client connects with the first call and closes everything at the end.

    Every method raises `SfEventsError`s that name the thing, the service's reason, and the remedy.

    :cvar payload_format: form of the payloads in deliveries.
    :cvar event_time_reader: returns the reader of the creation time of events of a schema.
    :param share_streams: fetches of one topic that continue from the same position use one stream.
    :param before_fetch: awaited with the topic before anything is requested; an error that it
        raises ends the fetch, and nothing is spent.
    """

    payload_format: ClassVar[PayloadFormat] = AVRO
    event_time_reader = staticmethod(event_time_reader)

    def __init__(
        self,
        settings: Settings,
        *,
        sessions: SessionCache = PROCESS_SESSIONS,
        schemas: SchemaCache = PROCESS_SCHEMAS,
        clock: Clock | None = None,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 - a frozen value
        share_streams: bool = False,
        before_fetch: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._clock = clock or Clock()
        self._calls = PubSubCalls(settings, sessions, self._clock, timeouts)
        self._timeouts = timeouts
        self._shared = SharedStreams(self._subscription) if share_streams else None
        self._locks = KeyedLock()
        self._schemas = schemas
        self._readable: set[str] = set()
        self._answer_seconds = 0.0
        self._before_fetch = before_fetch
        self._readers: dict[str, EventTime] = {}
        self.publishing = PublishClient(self._calls, self._clock, self.get_topic, self.get_schema)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._shared is not None:
            await self._shared.close()
        await self._calls.close()

    async def session(self) -> Session:
        """The session in use; logs in if there is none."""
        return await self._calls.session()

    async def get_topic(self, topic: str) -> TopicInfo:
        request = pb2.TopicRequest(topic_name=check_pubsub_topic(topic))
        info = await self._calls.unary(
            "GetTopic", request, f"Looking up {topic} at {self._calls.endpoint}"
        )
        return TopicInfo(
            name=info.topic_name,
            tenant_guid=info.tenant_guid,
            can_publish=info.can_publish,
            can_subscribe=info.can_subscribe,
            schema_id=info.schema_id,
            rpc_id=info.rpc_id,
        )

    async def require_readable(self, topic: str) -> None:
        """Check that the user may subscribe.

        A client checks once: if the permission is withdrawn later, the service refuses the stream.

        :raises TopicError: the user may not; raised before an event is requested.
        """
        if topic in self._readable:
            return
        async with self._locks.hold(topic):
            if topic in self._readable:
                return
            asked_at = self._clock.monotonic()
            info = await self.get_topic(topic)
            self._answer_seconds = self._clock.monotonic() - asked_at
            if not info.can_subscribe:
                raise TopicError(
                    f"The connection's user may not subscribe to {topic} (rpc id {info.rpc_id}). "
                    "Grant read permission on the event, and for change events View All Data, "
                    "or View All on the object."
                )
            self._readable.add(topic)

    async def get_schema(self, schema_id: str) -> str:
        """The Avro schema as JSON.

        From the process's cache if any client of the org has fetched it.

        :raises SchemaUnknownError: there is no schema of this id, and there will be none.
        :raises TransportError: it cannot be fetched just now.
        :raises ConfigurationError: the user may not read it.
        """
        session = await self.session()

        async def fetch() -> str:
            doing = (
                f"Getting the schema with id {schema_id!r} of org {session.org_id} from "
                f"{self._calls.endpoint}"
            )
            if not schema_id.strip():
                raise SchemaUnknownError(
                    f"{doing} failed: the id is blank. Give the schema id of an event or topic."
                )
            info = await self._calls.unary(
                "GetSchema", pb2.SchemaRequest(schema_id=schema_id), doing
            )
            if not info.schema_json:
                raise SchemaUnknownError(
                    f"{doing} failed: the org has no such schema (rpc id {info.rpc_id})."
                )
            return str(info.schema_json)

        return await self._schemas.get(session.org_id, schema_id, fetch)

    async def check(self, within_seconds: float = 9.0) -> Session:
        """Log in and make one RPC that costs nothing: it proves that this machine can use the API.

        :raises SfEventsError: the reason and the remedy.
        """
        try:
            async with asyncio.timeout(within_seconds):
                # A TopicError proves a valid session: the user merely may not read change events.
                with suppress(TopicError):
                    await self.get_topic("/data/ChangeEvents")
                return await self.session()
        except TimeoutError as error:
            raise TransportError(
                f"Login and {self._calls.endpoint} together did not answer within "
                f"{within_seconds:.0f} s. Check host, endpoint, network and proxy."
            ) from error

    async def fetch(
        self,
        topic: str,
        start: ReplayPoint,
        bounds: Bounds,
        receive: Receive,
        already: StagedProgress = StagedProgress(),  # noqa: B008 - a frozen value
        stop: asyncio.Event | None = None,
        on_keepalive: OnKeepalive | None = None,
        equal_points: Collection[ReplayPoint] = (),
        *,
        outlast: bool = False,
    ) -> FetchResult:
        """Fetch one batch: the events strictly after `start`, until a bound is reached.

        `receive` is awaited with each delivery that holds events, in order; meanwhile more is
        requested, and a few responses are read at most. When this returns or raises, no stream is
        open.

        :param start: replay point of the subscription.
        :param already: events in earlier parts of the batch; the bounds count them.
        :param stop: ends the batch when set, like a bound; made in the loop that calls this.
        :param on_keepalive: awaited with the replay id in hex of each keepalive; until an event
            comes, a subscription may continue from it as well as from the last event. An error that
            it raises ends the fetch like an error of `receive`.
        :param equal_points: other replay points of the same position as `start`, with no event
            between them. Where streams are shared, the fetch joins a stream by them; no stream
            starts from them.
        :param outlast: wait for a service that is away until `max_seconds`; otherwise for half a
            minute.
        :raises SfEventsError: a terminal error before the first event; after it, the batch ends
            there and the result holds the error.
        """
        await self.require_readable(topic)
        if self._before_fetch is not None:
            await self._before_fetch(topic)
        with interrupted_by(stop) as interrupt:
            subscription = self._listening(topic, start, interrupt, equal_points, outlast=outlast)
            batch = BoundedFetch(
                subscription,
                bounds.for_answers_in(self._answer_seconds),
                receive,
                on_keepalive=on_keepalive,
                already=already,
                stopped=stop.is_set if stop is not None else None,
                times_of=self.times_of,
                clock=self._clock,
            )
            return await batch.run()

    async def subscribe(
        self, topic: str, start: ReplayPoint, *, credit: int = MAX_CREDIT
    ) -> AsyncGenerator[Delivery]:
        """Deliveries without end, keepalives among them; lost streams are replaced.

        The stream closes with the iterator, so break out of it within `contextlib.aclosing`.

        :param credit: events that may be outstanding at once; each that is delivered is paid for.
        """
        if not 1 <= credit <= MAX_CREDIT:
            raise ConfigurationError(f"credit is {credit!r}. Give a number from 1 to {MAX_CREDIT}.")
        await self.require_readable(topic)
        subscription = self._subscription(topic, start)
        try:
            await subscription.ask_up_to(credit)
            while True:
                delivery = await subscription.next(_LISTEN_SECONDS)
                if delivery is not None:
                    await subscription.ask_up_to(credit)
                    yield delivery
        finally:
            await subscription.close()

    async def outlasting(self, topic: str, start: ReplayPoint) -> Subscription:
        """A subscription that opens streams again until its user closes it; nothing is open yet.

        :raises SfEventsError: the user may not subscribe, or the service cannot be reached.
        """
        await self.require_readable(topic)
        return self._subscription(topic, start, outlast=True)

    async def publish(
        self, topic: str, events: Sequence[Mapping[str, Any]], *, ids: Sequence[str] | None = None
    ) -> list[PublishResult]:
        """Publish records (field name to value) to a platform event topic.

        `PublishClient.publish` does the work; `publishing` offers more.
        """
        return await self.publishing.publish(topic, events, ids)

    def managed(self, reference: str, topic: str) -> ManagedSubscription:
        """A managed subscription, to be used as `async with`; it connects with its first call.

        :param reference: its id or developer name.
        """
        return ManagedSubscription(
            self._calls, reference, topic, self.get_topic, self.times_of, self._before_fetch
        )

    def _listening(
        self,
        topic: str,
        start: ReplayPoint,
        interrupt: asyncio.Future[Any] | None,
        equal_points: Collection[ReplayPoint],
        *,
        outlast: bool,
    ) -> DeliverySource:
        if self._shared is None:
            return self._subscription(topic, start, interrupt, outlast=outlast)
        request = JoinRequest(start=start, equal_points=tuple(equal_points))
        return self._shared.member(topic, request, interrupt)

    def _subscription(
        self,
        topic: str,
        start: ReplayPoint,
        interrupt: asyncio.Future[Any] | None = None,
        *,
        outlast: bool = False,
    ) -> Subscription:
        return Subscription(
            TopicStreamSource(self._calls, topic, self.get_topic),
            start,
            self._clock,
            interrupt,
            timeouts=self._timeouts,
            next_step=partial(next_step, max_tries=None) if outlast else next_step,
        )

    async def times_of(self, schema_id: str) -> EventTime:
        if schema_id not in self._readers:
            try:
                schema = await self.get_schema(schema_id)
            except SchemaUnknownError:
                schema = ""  # its events have no readable time
            self._readers[schema_id] = self.event_time_reader(schema)
        return self._readers[schema_id]
