"""From records to the requests that publish them. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from airflow_provider_sfevents.proto.pubsub_api_pb2 import ProducerEvent

# The allocations page: an event may have 1 MB; a request should have no more than 200 events and 3 MB.
MAX_EVENT_BYTES = 1_000_000
MAX_REQUEST_EVENTS = 200
MAX_REQUEST_BYTES = 3_000_000
# An envelope's share beside payload, id and schema id.
_ENVELOPE_BYTES = 32

# Required by every platform event's schema, and not checked by the service.
_UNKNOWN_USER = "005000000000000AAA"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MIDNIGHT = date(1970, 1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """What became of one event.

    :param event_id: the event's identity; publishing it again under the same id is recognisable as a repetition.
    :param replay_id: empty where the service refused the event. :param error: why it did.
    """

    event_id: str
    replay_id: bytes
    error: str = ""


def encode(
    records: Sequence[Mapping[str, Any]],
    schema_json: str,
    *,
    now: datetime,
    user_id: str,
    topic: str,
) -> list[bytes]:
    """Payloads by the topic's schema; `CreatedDate` and `CreatedById` are filled in where a record has none.

    Times may be given as Python's `datetime`, `date` and `time`, numbers as `Decimal`.

    :raises ConfigurationError: naming the record, for a field the schema has not, a value it does not take, or an event above 1 MB.
    """
    import fastavro

    schema = json.loads(schema_json)
    known = {field["name"] for field in schema["fields"]}
    parsed = fastavro.parse_schema(schema)
    defaults = {"CreatedDate": _milliseconds(now), "CreatedById": user_id or _UNKNOWN_USER}
    defaults = {name: value for name, value in defaults.items() if name in known}
    payloads = []
    for index, record in enumerate(records):
        if unknown := sorted(record.keys() - known):
            raise ConfigurationError(
                f"Record {index} for {topic} has fields its schema has not: {', '.join(map(repr, unknown))}. It has: "
                f"{', '.join(sorted(known))}."
            )
        values = {name: _plain(value) for name, value in record.items()}
        payloads.append(
            _encoded(fastavro, parsed, {**defaults, **values}, f"Record {index} for {topic}")
        )
    return payloads


def _encoded(fastavro: Any, parsed: Any, values: dict[str, Any], what: str) -> bytes:
    out = BytesIO()
    try:
        fastavro.schemaless_writer(out, parsed, values, strict_allow_default=True)
    except (ValueError, TypeError, KeyError, OverflowError, AttributeError, IndexError) as error:
        raise ConfigurationError(
            f"{what} does not fit its schema: {error}. Check the field's type."
        ) from error
    if out.tell() > MAX_EVENT_BYTES:
        raise ConfigurationError(
            f"{what} has {out.tell():,} bytes; Salesforce takes events up to {MAX_EVENT_BYTES:,}. Shorten or split it."
        )
    return out.getvalue()


def requests(events: Iterable[ProducerEvent]) -> Iterator[list[ProducerEvent]]:
    """The events in order, in as few lists as the service's limits allow."""
    batch: list[ProducerEvent] = []
    size = 0
    for event in events:
        event_size = len(event.payload) + len(event.id) + len(event.schema_id) + _ENVELOPE_BYTES
        if batch and (len(batch) == MAX_REQUEST_EVENTS or size + event_size > MAX_REQUEST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += event_size
    if batch:
        yield batch


def _plain(value: Any) -> Any:
    """As the schema's types take it: Salesforce writes times as milliseconds, numbers as doubles."""
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise ConfigurationError(f"The time {value!r} has no time zone. Give one, such as UTC.")
        return _milliseconds(value)
    if isinstance(value, date):
        return (value - _MIDNIGHT).days * 86_400_000
    if isinstance(value, time):
        return (
            (value.hour * 60 + value.minute) * 60 + value.second
        ) * 1000 + value.microsecond // 1000
    return float(value) if isinstance(value, Decimal) else value


def _milliseconds(moment: datetime) -> int:
    return round((moment - _EPOCH).total_seconds() * 1000)
