"""A batch in memory, for tasks that read a few events themselves."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BytesIO
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import SchemaUnknownError
from airflow_provider_sfevents.staging.payload_bounds import is_bounded

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.bounds import Bounds
    from airflow_provider_sfevents.pubsub.client import PubSubClient
    from airflow_provider_sfevents.pubsub.streaming.bounded_fetch import FetchResult
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.replay_point import ReplayPoint


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One event, undecoded.

    :param id: empty if the service sent none.
    :param replay_id: hex.
    :param schema: Avro schema it was written with, as JSON text; empty if the service does not have
        it.
    :param received_at: by this machine's clock, UTC.
    """

    id: str
    replay_id: str
    schema_id: str
    schema: str
    payload: bytes
    received_at: datetime

    def decode(self) -> dict[str, Any]:
        """Decode the fields, as Avro has them.

        Times are milliseconds, and the lists of changed fields in a change event are bitmaps.

        :raises ValueError: the payload does not fit its schema, or there is no schema.
        """
        import fastavro

        if not self.schema:
            raise ValueError(
                f"event {self.replay_id} cannot be decoded: the service has no schema "
                f"{self.schema_id!r}"
            )
        schema = fastavro.parse_schema(json.loads(self.schema))
        if not is_bounded(schema):
            raise ValueError(
                f"event {self.replay_id} is not decoded: its schema {self.schema_id} has a list of "
                "items that take no bytes, or a record within itself, so that a few bytes could "
                "fill the memory. Decode its payload with a library of your own if you trust it"
            )
        data = BytesIO(self.payload)
        try:
            record = fastavro.schemaless_reader(data, schema, None)
        except (EOFError, IndexError, UnicodeDecodeError, ValueError) as error:
            raise ValueError(
                f"event {self.replay_id} does not decode with schema {self.schema_id}: {error}"
            ) from error
        if data.read(1):
            raise ValueError(f"event {self.replay_id} has bytes beyond its schema {self.schema_id}")
        return dict(record)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """Events of a fetch, and its result."""

    events: tuple[Event, ...]
    result: FetchResult


async def fetch_into_memory(
    client: PubSubClient, topic: str, start: ReplayPoint, bounds: Bounds
) -> Fetched:
    deliveries: list[Delivery] = []

    async def receive(delivery: Delivery) -> None:
        deliveries.append(delivery)

    result = await client.fetch(topic, start, bounds, receive)
    ids = {schema_id for delivery in deliveries for schema_id in delivery.schema_ids}
    schemas = {schema_id: await _schema(client, schema_id) for schema_id in ids}
    events = tuple(event for delivery in deliveries for event in _events(delivery, schemas))
    return Fetched(events=events, result=result)


async def _schema(client: PubSubClient, schema_id: str) -> str:
    """Return a schema; empty if the service does not have it, so that the other events are kept."""
    try:
        return await client.get_schema(schema_id)
    except SchemaUnknownError:
        return ""


def _events(delivery: Delivery, schemas: dict[str, str]) -> list[Event]:
    received_at = datetime.fromtimestamp(delivery.received_at / 1e6, UTC)
    columns = zip(
        delivery.ids, delivery.replay_ids, delivery.schema_ids, delivery.payloads, strict=True
    )
    return [
        Event(
            id=event_id,
            replay_id=replay_id.hex(),
            schema_id=schema_id,
            schema=schemas[schema_id],
            payload=payload,
            received_at=received_at,
        )
        for event_id, replay_id, schema_id, payload in columns
    ]
