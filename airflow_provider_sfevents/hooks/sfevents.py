"""`SfEventsHook`: calls of the Pub/Sub API by an Airflow connection of type `sfevents`."""

from __future__ import annotations

import logging
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook

from airflow_provider_sfevents.batches.position.position_metrics import Metric
from airflow_provider_sfevents.doctor.findings import failures, message
from airflow_provider_sfevents.doctor.org_checks import OrgChecks
from airflow_provider_sfevents.doctor.org_findings import ELSEWHERE
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.airflow_errors import found_connection
from airflow_provider_sfevents.hooks.connection import (
    ConnectionFields,
    check_extra,
    settings_from,
)
from airflow_provider_sfevents.hooks.memory_batch import Fetched, fetch_into_memory
from airflow_provider_sfevents.hooks.outgoing.seen_allowances import keep_allowance
from airflow_provider_sfevents.hooks.outgoing.task_metrics import emit
from airflow_provider_sfevents.hooks.stock_connection import STOCK_TYPE, stock_settings
from airflow_provider_sfevents.hooks.task_thread import run_async_in_thread
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.rest import org_limits
from airflow_provider_sfevents.pubsub.rest.entity_snapshot import read_records
from airflow_provider_sfevents.pubsub.rest.event_channels import list_topics
from airflow_provider_sfevents.pubsub.rest.field_selection import change_topic
from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls
from airflow_provider_sfevents.pubsub.topic_description import describe_topic
from airflow_provider_sfevents.pubsub.topic_names import TransportName, transport_for
from airflow_provider_sfevents.replay_point import ReplayPoint
from airflow_provider_sfevents.streaming.topic_client import StreamingTopicClient

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
    from typing import TypeVar

    from upath import UPath

    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.client import Client
    from airflow_provider_sfevents.doctor.findings import Finding
    from airflow_provider_sfevents.doctor.org_findings import Followed
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.pubsub.client import TopicInfo
    from airflow_provider_sfevents.pubsub.managed.managed_subscription import ManagedSubscription
    from airflow_provider_sfevents.pubsub.publishing.event_encoder import PublishResult
    from airflow_provider_sfevents.pubsub.rest.entity_snapshot import SnapshotRequest
    from airflow_provider_sfevents.pubsub.rest.offered_topics import OfferedTopic
    from airflow_provider_sfevents.pubsub.rest.org_limits import Allowance
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.pubsub.topic_description import DescribedTopic
    from airflow_provider_sfevents.staging.snapshot_files import ReadFolder, ReadManifest

    T = TypeVar("T")

log = logging.getLogger(__name__)

TEST_SECONDS = 9.0
"""Bound of the test-connection button and of the page's check; the UI gives up after 10 s."""


class SfEventsHook(BaseHook):
    """Salesforce's Pub/Sub API by an Airflow connection.

    Every call opens a channel and closes it again; logins and schemas are kept for the life of the
    process. The methods block and are for tasks; in a triggerer use `pubsub_client` or
    `topic_client`, which are asynchronous. They work in a thread of their own, so that Airflow's
    `execution_timeout` ends them at any point.

    :param conn_id: an Airflow connection of type `sfevents`, or of Airflow's own type `salesforce`.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "sfevents_default"
    conn_type = "sfevents"
    hook_name = "Salesforce Events"

    def __init__(self, conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id

    def settings(self) -> Settings:
        """Return the connection's settings, checked.

        :raises ConfigurationError: the message names the field of the connection that is wrong.
        :raises TransportError: Airflow cannot read the connection just now.
        """
        conn_type, extra, fields = self._found()
        check_extra(self.conn_id, extra)
        if conn_type == STOCK_TYPE:
            return stock_settings(fields)
        if conn_type != self.conn_type:
            raise ConfigurationError(
                f"Connection {self.conn_id!r} is of type {conn_type!r}; change it to "
                f"`{self.conn_type}` (in the form {self.hook_name}), or name another one by "
                "`conn_id`."
            )
        return settings_from(fields)

    def _found(self) -> tuple[str | None, Secret, ConnectionFields]:
        """Return the connection's type, extra and fields.

        Nothing fails while the connection is bound to a name, because a traceback could show it.
        """
        remedy = (
            f"Create it (type `{self.conn_type}`, in the form {self.hook_name}), or name another "
            "one by `conn_id`."
        )
        connection = found_connection(self.conn_id, "Connection", remedy)
        extra = Secret(connection.extra or "")
        return connection.conn_type, extra, ConnectionFields(connection)

    def client(self, **options: Any) -> Client:
        """Return the asyncio client for programs, for `async with`; it is open inside.

        :param options: further arguments of `airflow_provider_sfevents.client.Client`, such as
            `replay`, `transport` and `raw`.
        """
        from airflow_provider_sfevents.client import Client

        settings = self.settings()
        return Client(settings, **{"transport": settings.transport or "pubsub", **options})

    def pubsub_client(self, min_allowance: int | None = None) -> PubSubClient:
        """Return a client for `async with`; nothing is opened before.

        :param min_allowance: fetches request nothing while the org has fewer deliveries left than
            this.
        """
        return PubSubClient(self.settings(), before_fetch=self._before_fetch(min_allowance))

    def _before_fetch(self, least: int | None) -> Callable[[str], Awaitable[None]] | None:
        return None if least is None else partial(self.require_allowance, least=least)

    def transport_of(self, topic: str, chosen: str | None = None) -> str:
        """Return the API that a topic is read by: a value of `TransportName`.

        :param chosen: for topics that both APIs have; default: the connection's extra `transport`.
        """
        return transport_for(topic, chosen or self.settings().transport).value

    def topic_client(
        self, topic: str, transport: str | None = None, *, min_allowance: int | None = None
    ) -> TopicClient:
        """Return the client of the API that a topic is read by, for `async with`.

        :param transport: as `chosen` of `transport_of`.
        :param min_allowance: as of `pubsub_client`.
        """
        settings = self.settings()
        name = transport_for(topic, transport or settings.transport)
        of_api = PubSubClient if name is TransportName.PUBSUB else StreamingTopicClient
        return of_api(settings, before_fetch=self._before_fetch(min_allowance))

    def rest(self) -> RestCalls:
        """Return a client of the org's REST API for `async with`; nothing is opened before."""
        return RestCalls(self.settings())

    async def require_allowance(self, topic: str, least: int) -> None:
        """Check that the org has enough deliveries left for the day; costs one API request.

        :param least: number of deliveries.
        :raises QuotaExceededError: it has fewer.
        :raises SfEventsError: the number cannot be read.
        """
        async with self.rest() as rest:
            await org_limits.require_allowance(rest, topic, least, self._tell_allowance)

    def _tell_allowance(self, org_id: str, seen: Allowance) -> None:
        """Measure and keep an allowance, also one that is too low to begin. Blocks."""
        labels = {"connection": self.conn_id, "allowance": seen.name}
        emit(
            [
                Metric(name="allowance_left", value=seen.left, labels=labels),
                Metric(name="allowance_most", value=seen.most, labels=labels),
            ]
        )
        keep_allowance(org_id, seen)

    async def read_records(
        self, request: SnapshotRequest, root: UPath
    ) -> tuple[ReadFolder, ReadManifest]:
        """Read full records of an entity into the staging area.

        :param root: of the staging area.
        :raises ConfigurationError: there is no such object, the user may not read it, or it has no
            change events.
        """
        async with self.pubsub_client() as client, self.rest() as rest:
            topic = await client.get_topic(change_topic(request.entity))
            schema = await client.get_schema(topic.schema_id)
            return await read_records(rest, schema, request, root)

    def test_connection(self) -> tuple[bool, str]:
        """Check login, Pub/Sub API, clock and allowance; for Airflow's test-connection button.

        :return: whether no check failed, and a message: what was seen or is to be changed, and what
            was not checked.
        """
        found = self.check_org()
        return not failures(found), message(found, ELSEWHERE)

    def check_org(self, followed: Mapping[str, Followed] | None = None) -> list[Finding]:
        """Run the doctor's checks of the org, within `TEST_SECONDS`.

        :param followed: what positions follow, by the id of their org; its topics are checked, too.
        """
        checks = OrgChecks(self.settings, followed=followed, seconds=TEST_SECONDS)
        return run_async_in_thread(checks.run)

    def get_topic(self, topic: str) -> TopicInfo:
        """Return a topic, with this user's permissions on it.

        :raises TopicError: there is no such topic, or this user may not see it.
        """
        return self._call(lambda client: client.get_topic(topic))

    def get_schema(self, schema_id: str) -> str:
        """Return the Avro schema with this id, as JSON text.

        :raises SchemaUnknownError: the service has no such schema.
        """
        return self._call(lambda client: client.get_schema(schema_id))

    def list_topics(self, *, unselected: bool = False) -> list[OfferedTopic]:
        """List topics and channels that the org offers, by kind and name; costs no delivery.

        If the user may not read the org's set-up (permission View Setup and Configuration),
        channels are left out with a warning in the log.

        :param unselected: include objects whose change events the org does not send.
        """

        async def ask() -> tuple[list[OfferedTopic], str]:
            async with self.rest() as rest:
                return await list_topics(rest, unselected=unselected)

        topics, problem = run_async_in_thread(ask)
        if problem:
            log.warning("%s", problem)
        return topics

    def describe_topic(self, topic: str) -> DescribedTopic:
        """Describe a topic: permissions, event types and their fields; costs no delivery.

        :raises TopicError: there is no such topic, or this user may not see it.
        """

        async def ask() -> DescribedTopic:
            async with self.pubsub_client() as client, self.rest() as rest:
                return await describe_topic(client, rest, topic)

        return run_async_in_thread(ask)

    def limits(self) -> dict[str, Allowance]:
        """Read the org's allowances, by the names of its REST resource `limits`.

        For example `DailyDeliveredPlatformEvents`.
        """

        async def ask() -> dict[str, Allowance]:
            async with self.rest() as rest:
                return await org_limits.read_limits(rest)

        return run_async_in_thread(ask)

    def fetch(self, topic: str, start: str = "earliest", bounds: Bounds | None = None) -> Fetched:
        """Fetch the events after `start` into memory; for large batches use the operators.

        :param start: `earliest`, `latest` or a replay id in hex.
        :param bounds: default: `Bounds()`.
        :raises ReplayIdRefusedError: the bus does not know the replay id.
        """
        return self._call(
            lambda client: fetch_into_memory(
                client, topic, ReplayPoint.from_text(start), bounds or Bounds()
            )
        )

    async def subscribe(self, topic: str, start: str = "latest") -> AsyncGenerator[Delivery]:
        """Yield deliveries as they come, with keepalives, until the caller stops iterating.

        :param start: `earliest`, `latest` or a replay id in hex.
        """
        async with (
            self.pubsub_client() as client,
            aclosing(client.subscribe(topic, ReplayPoint.from_text(start))) as deliveries,
        ):
            async for delivery in deliveries:
                yield delivery

    @asynccontextmanager
    async def managed_subscribe(
        self, subscription: str, topic: str, *, allow_latest_recovery: bool = False
    ) -> AsyncGenerator[ManagedSubscription]:
        """Open a managed event subscription, whose replay id Salesforce keeps.

        Iterate over its `deliveries()`, and call `commit(replay_id)` for events that are processed.
        Deliveries come without end, with keepalives; after a lost stream, events that were not
        committed come again. `commit` returns the reason if Salesforce did not keep the replay id,
        otherwise nothing. Commit at least every 30 minutes, also a keepalive's `latest_replay_id`,
        or the service closes the stream. There is one client at a time; leaving the block frees the
        slot.

        :param subscription: its developer name, or its id.
        :param allow_latest_recovery: use it even if its errorRecoveryReplay is not EARLIEST, or
            cannot be read.
        :raises ConfigurationError: there is none, it is of another topic, stopped, or may lose
            events silently.
        """
        async with self.pubsub_client() as client, client.managed(subscription, topic) as managed:
            await managed.config(allow_latest_recovery=allow_latest_recovery)
            yield managed

    def publish(
        self, topic: str, records: Sequence[Mapping[str, Any]], ids: Sequence[str] | None = None
    ) -> list[PublishResult]:
        """Publish records as platform events; returns one result for each, in order.

        For many records use `SfEventsPublishOperator`.

        :param records: field name to value; `CreatedDate` and `CreatedById` are filled in if
            missing.
        :param ids: the events' identities, by which a repetition can be recognised; default:
            random.
        :raises ConfigurationError: records do not fit the topic's schema; the message lists all
            errors, and nothing is sent.
        """
        return self._call(lambda client: client.publish(topic, records, ids=ids))

    async def publish_stream(
        self, topic: str, records: Iterable[Mapping[str, Any]], ids: Sequence[str] | None = None
    ) -> AsyncGenerator[PublishResult]:
        """Publish records over a stream, several requests at a time; yields results as they come.

        `number` in a result is the number of its record.

        :param records: a list is checked as a whole before anything is sent; with any other
            iterable each record is checked when it is read.
        """
        async with (
            self.pubsub_client() as client,
            aclosing(client.publishing.stream(topic, records, ids)) as results,
        ):
            async for result in results:
                yield result

    def _call(self, call: Callable[[PubSubClient], Awaitable[T]]) -> T:
        async def run() -> T:
            async with self.pubsub_client() as client:
                return await call(client)

        return run_async_in_thread(run)
