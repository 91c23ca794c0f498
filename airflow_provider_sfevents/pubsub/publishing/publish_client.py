"""Publishing by a client: look up the topic, check the records against its schema, send events."""

from __future__ import annotations

import logging
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents.exceptions import TopicError
from airflow_provider_sfevents.pubsub.publishing.event_encoder import UNKNOWN_USER, EventEncoder
from airflow_provider_sfevents.pubsub.publishing.event_ids import ids_of, random_ids
from airflow_provider_sfevents.pubsub.publishing.event_publisher import (
    EventPublisher,
    PublishPace,
    publish_whole,
    stream_records,
)
from airflow_provider_sfevents.pubsub.publishing.publish_transport import (
    RequestTransports,
    StreamTransports,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence

    from airflow_provider_sfevents.pubsub.clock import Clock
    from airflow_provider_sfevents.pubsub.publishing.event_encoder import PublishResult
    from airflow_provider_sfevents.pubsub.publishing.event_ids import Identify
    from airflow_provider_sfevents.pubsub.pubsub_calls import PubSubCalls

log = logging.getLogger(__name__)


class _Topic(Protocol):
    """Facts of a topic that publishing needs."""

    @property
    def can_publish(self) -> bool: ...

    @property
    def schema_id(self) -> str: ...

    @property
    def rpc_id(self) -> str: ...


class PublishClient:
    """Publishing methods of a client; `PubSubClient.publishing`.

    :param look_up: returns the topic's facts.
    :param get_schema: as JSON, by its id.
    """

    def __init__(
        self,
        calls: PubSubCalls,
        clock: Clock,
        look_up: Callable[[str], Awaitable[_Topic]],
        get_schema: Callable[[str], Awaitable[str]],
    ) -> None:
        self._calls = calls
        self._clock = clock
        self._look_up = look_up
        self._get_schema = get_schema

    async def encoder(
        self, topic: str, *, identify: Identify = random_ids, id_field: str = ""
    ) -> EventEncoder:
        """Make the encoder for a topic; it may be used in any thread.

        :param identify: makes events' ids.
        :param id_field: see `EventEncoder`.
        :raises TopicError: the topic takes no events of this user.
        """
        info = await self._look_up(topic)
        if not info.can_publish or not info.schema_id:
            raise TopicError(
                f"{topic} takes no events of this user (rpc id {info.rpc_id}): publish to a "
                "platform event (/event/Name__e) that the connection's user may create."
            )
        schema = await self._get_schema(info.schema_id)
        session = await self._calls.session_with_user()
        if not session.user_id:
            log.warning(
                "Publishing to %s: %s does not reveal the user of this session, so CreatedById "
                "is %s in records that have none, and flows that run as the publisher do not "
                "start. Give CreatedById in the records, or log in by an app with the scope "
                "openid.",
                topic,
                session.instance_url,
                UNKNOWN_USER,
            )
        return EventEncoder(
            schema,
            topic=topic,
            schema_id=info.schema_id,
            now=self._clock.now(),
            user_id=session.user_id or UNKNOWN_USER,
            identify=identify,
            id_field=id_field,
        )

    async def publish(
        self, topic: str, records: Sequence[Mapping[str, Any]], ids: Sequence[str] | None = None
    ) -> list[PublishResult]:
        """Publish records by `Publish`, one request after another; one result for each, in order.

        All are encoded before the first is sent. An event that is refused is sent again, up to
        three times in all. A request that the service certainly did not take is repeated; one whose
        answer is lost is not.

        :param ids: the events' ids, to recognise a repetition by; random if not given.
        :raises ConfigurationError: naming all mistakes in the records; nothing is sent.
        :raises PublishInterruptedError: has the events that may be on the bus, those that are not,
            and the ids to continue with.
        :raises QuotaExceededError: with the number of published events.
        """
        encoder = await self.encoder(topic, identify=ids_of(ids, records))
        transports = RequestTransports(self._calls, topic, encoder.schema_id, len(records))
        publisher = EventPublisher(transports, topic, self._clock, PublishPace(max_requests=1))
        return await publish_whole(publisher, encoder, records)

    async def stream(
        self,
        topic: str,
        records: Iterable[Mapping[str, Any]],
        ids: Sequence[str] | None = None,
        pace: PublishPace = PublishPace(),  # noqa: B008 - a frozen value
    ) -> AsyncGenerator[PublishResult]:
        """Publish records by `PublishStream`, several requests under way at once.

        Results come as the service answers, not in order (`number` identifies the record). A stream
        that breaks is replaced, and unanswered events are sent again under the same ids: they may
        be on the bus twice. Break out of it within `contextlib.aclosing`; the fate of the events
        under way is then unknown.

        :param records: a sequence is checked as a whole before anything is sent; of another
            iterable each record is checked as it is taken, in another thread.
        :param ids: as for `publish`; only for a sequence.
        :raises SfEventsError: as `publish` does, after the results that came.
        """
        encoder = await self.encoder(topic, identify=ids_of(ids, records))
        answered = stream_records(self.publisher(encoder, pace), encoder, records)
        async with aclosing(answered):
            async for result in answered:
                yield result

    def publisher(
        self,
        encoder: EventEncoder,
        pace: PublishPace = PublishPace(),  # noqa: B008 - a frozen value
    ) -> EventPublisher:
        """Make a publisher that sends events of this encoder's topic by `PublishStream`.

        See `send_all`.
        """
        transports = StreamTransports(self._calls, encoder.topic, encoder.schema_id, pace)
        return EventPublisher(transports, encoder.topic, self._clock, pace)
