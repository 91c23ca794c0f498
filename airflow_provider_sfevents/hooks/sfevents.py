"""`SfEventsHook`: a connection of type `sfevents`, made into calls of the Pub/Sub API."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowNotFoundException

from airflow_provider_sfevents.exceptions import ConfigurationError, SfEventsError
from airflow_provider_sfevents.hooks.connection import settings_from
from airflow_provider_sfevents.hooks.fetched import Fetched, fetch_into_memory
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.rest.calls import RestCalls
from airflow_provider_sfevents.pubsub.rest.reading import read_records
from airflow_provider_sfevents.pubsub.rest.selection import change_topic

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
    from typing import TypeVar

    from upath import UPath

    from airflow_provider_sfevents.pubsub.client import Topic
    from airflow_provider_sfevents.pubsub.delivery import Delivery
    from airflow_provider_sfevents.pubsub.publishing import PublishResult
    from airflow_provider_sfevents.pubsub.rest.reading import WantedRead
    from airflow_provider_sfevents.pubsub.settings import Settings
    from airflow_provider_sfevents.staging.reads import ReadFolder, ReadManifest

    T = TypeVar("T")

TEST_SECONDS = 9.0
"""How long the test-connection button may take; the UI's patience is 10 s."""


class SfEventsHook(BaseHook):
    """Salesforce's Pub/Sub API by an Airflow connection.

    Every call opens a channel and closes it again; logins and schemas are kept for the life of the process. The
    methods block and are for tasks; in a triggerer use `client`, which is asynchronous.

    :param conn_id: an Airflow connection of type `sfevents`.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "sfevents_default"
    conn_type = "sfevents"
    hook_name = "Salesforce Events"

    def __init__(self, conn_id: str = default_conn_name, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.conn_id = conn_id

    def settings(self) -> Settings:
        """The connection's settings, checked.

        :raises ConfigurationError: naming the field of the connection that cannot work.
        """
        try:
            connection = self.get_connection(self.conn_id)
        except AirflowNotFoundException as error:
            raise ConfigurationError(
                f"Connection {self.conn_id!r} is not defined. Create it (type `{self.conn_type}`, in the form {self.hook_name}), or name "
                "another one by `conn_id`."
            ) from error
        if connection.conn_type != self.conn_type:
            raise ConfigurationError(
                f"Connection {self.conn_id!r} is of type {connection.conn_type!r}; change it to `{self.conn_type}` (in the form "
                f"{self.hook_name}), or name another one by `conn_id`."
            )
        return settings_from(connection)

    def client(self) -> PubSubClient:
        """A client to be used with `async with`; nothing is opened before."""
        return PubSubClient(self.settings())

    def rest(self) -> RestCalls:
        """A client of the org's REST API, to be used with `async with`; nothing is opened before."""
        return RestCalls(self.settings())

    async def read_records(
        self, wanted: WantedRead, root: UPath
    ) -> tuple[ReadFolder, ReadManifest]:
        """Read full records of an entity into the staging area.

        :param root: of the staging area.
        :raises ConfigurationError: there is no such object, the user may not read it, or it has no change events.
        """
        async with self.client() as client, self.rest() as rest:
            topic = await client.get_topic(change_topic(wanted.entity))
            schema = await client.get_schema(topic.schema_id)
            return await read_records(rest, schema, wanted, root)

    def test_connection(self) -> tuple[bool, str]:
        """Log in and reach the Pub/Sub API; for Airflow's test-connection button.

        :return: whether all went well, and what was reached or what to change.
        """
        try:
            return True, asyncio.run(asyncio.wait_for(self._reach(), TEST_SECONDS))
        except SfEventsError as error:
            return False, str(error)
        except TimeoutError:
            return False, (
                f"no answer within {TEST_SECONDS:.0f} s. Is the way open to the login host and to the Pub/Sub API "
                "(port 7443 or 443, HTTP/2)?"
            )

    async def _reach(self) -> str:
        settings = self.settings()
        async with PubSubClient(settings) as client:
            session = await client.check()
        return f"Logged in to org {session.org_id} at {session.instance_url}; Pub/Sub API reached at {settings.endpoint}."

    def get_topic(self, topic: str) -> Topic:
        """What a topic is and what this user may do with it.

        :raises TopicError: when there is no such topic, or it is not this user's to see.
        """
        return self._call(lambda client: client.get_topic(topic))

    def get_schema(self, schema_id: str) -> str:
        """The Avro schema with this id, as JSON text."""
        return self._call(lambda client: client.get_schema(schema_id))

    def fetch(self, topic: str, start: str = "earliest", bounds: Bounds | None = None) -> Fetched:
        """The events after `start`, into memory; a batch too large for that is the operators' work.

        :param start: `earliest`, `latest` or a replay id in hex.
        :raises ReplayIdRefused: when the bus does not know the replay id.
        """
        return self._call(
            lambda client: fetch_into_memory(client, topic, start, bounds or Bounds())
        )

    async def subscribe(self, topic: str, start: str = "latest") -> AsyncGenerator[Delivery]:
        """Deliveries as they come, keepalives among them, for as long as the caller iterates."""
        async with self.client() as client, aclosing(client.subscribe(topic, start)) as deliveries:
            async for delivery in deliveries:
                yield delivery

    def publish(self, topic: str, records: Sequence[Mapping[str, Any]]) -> list[PublishResult]:
        """Publish records as platform events; one result for each, in order.

        :param records: field name to value; `CreatedDate` and `CreatedById` are filled in where missing.
        """
        return self._call(lambda client: client.publish(topic, records))

    def _call(self, call: Callable[[PubSubClient], Awaitable[T]]) -> T:
        async def run() -> T:
            async with self.client() as client:
                return await call(client)

        return asyncio.run(run())
