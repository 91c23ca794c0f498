"""Encoder: records become events, and events become requests. Pure.

Every record is checked against the topic's schema before the first event is sent, and one error
names all mistakes. An event has an id before it is sent; if it is sent again, it keeps the id, so a
subscriber that receives both recognises the repetition.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.publishing.event_fields import (
    RecordMistake,
    abridged,
    fields_of,
    fit,
    milliseconds,
    near,
)
from airflow_provider_sfevents.pubsub.publishing.event_ids import random_ids

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from airflow_provider_sfevents.pubsub.publishing.event_ids import Identify

# The allocations page: an event may have 1 MB; a request should have no more than 200 events and 3
# MB.
MAX_EVENT_BYTES = 1_000_000
MAX_REQUEST_EVENTS = 200
MAX_REQUEST_BYTES = 3_000_000
SHOWN = 20
"""Mistakes that a message shows one by one; it counts the others."""

# An envelope's share beside payload, id and schema id.
_ENVELOPE_BYTES = 64

UNKNOWN_USER = "005000000000000AAA"
"""`CreatedById` if the user is not known: schemas require one, and the service checks none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishResult:
    """Result of one event.

    :param event_id: the event's id; publishing it again under the same id is recognisable as a
        repetition.
    :param replay_id: empty if the service refused the event.
    :param error: the service's reason for a refusal.
    :param number: of its record, counted from 1.
    """

    event_id: str
    replay_id: bytes
    error: str = ""
    number: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingEvent:
    """An event to be sent.

    :param number: of its record, counted from 1.
    :param id: its event id.
    :param payload: Avro, without its schema.
    """

    number: int
    id: str
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRecord:
    """A record as it was given.

    :param number: counted from 1.
    :param where: file and line or row; empty for a record of a list.
    :param unreadable: the reason why it could not be read, as the end of a sentence; `record` is
        then the unread content.
    """

    number: int
    record: Any
    where: str = ""
    unreadable: str = ""

    @property
    def name(self) -> str:
        return f"record {self.number} ({self.where})" if self.where else f"record {self.number}"


def numbered(records: Iterable[Any]) -> Iterator[GivenRecord]:
    """Number the records of a list from 1."""
    return (GivenRecord(number=number, record=record) for number, record in enumerate(records, 1))


class EventEncoder:
    """Makes events of records by a topic's schema.

    `CreatedDate` and `CreatedById` are filled in if a record lacks them.

    :param schema_id: of the schema, which the events name.
    :param identify: see `derived_ids`.
    :param id_field: the field of a record that is its event's id; in place of `identify`. If the
        event has no such field, it is used for the id alone.
    """

    def __init__(
        self,
        schema_json: str,
        *,
        topic: str,
        schema_id: str,
        now: datetime,
        user_id: str,
        identify: Identify = random_ids,
        id_field: str = "",
    ) -> None:
        import fastavro

        self.topic = topic
        self.schema_id = schema_id
        self._write = fastavro.schemaless_writer
        self._schema = fastavro.parse_schema(json.loads(schema_json))
        self.fields = {one.name: one for one in fields_of(schema_json)}
        filled = {"CreatedDate": milliseconds(now), "CreatedById": user_id}
        self._defaults = {name: value for name, value in filled.items() if name in self.fields}
        self._identify = identify
        self.id_field = id_field

    def event(self, given: GivenRecord) -> tuple[OutgoingEvent | None, list[RecordMistake]]:
        """The event of a record, or all mistakes in the record."""
        record, own = given.record, None
        if given.unreadable:
            said = f"is {abridged(record)}, {given.unreadable}"
            return None, [RecordMistake(field="", said=said)]
        values, mistakes = fit(self._without_id(record), self.fields, self._defaults)
        if self.id_field and isinstance(record, Mapping):
            own = record.get(self.id_field)
            if not isinstance(own, str) or not own.strip():
                said = f"is {abridged(own)}; it must be text, since it is the event's id"
                if self.id_field not in record:
                    said = (
                        f"is missing, but it is to be the event's id{near(self.id_field, record)}"
                    )
                mistakes.append(RecordMistake(field=self.id_field, said=said))
        if mistakes:
            return None, mistakes
        # Filled-in values differ from try to try; the id must not.
        given_values = {
            name: value for name, value in values.items() if record.get(name) is not None
        }
        return self._encoded(
            given.number, own or self._identify(given.number, given_values), values
        )

    def _without_id(self, record: Any) -> Any:
        if not self.id_field or self.id_field in self.fields or not isinstance(record, Mapping):
            return record
        return {name: value for name, value in record.items() if name != self.id_field}

    def _encoded(
        self, number: int, event_id: str, values: dict[str, Any]
    ) -> tuple[OutgoingEvent | None, list[RecordMistake]]:
        out = BytesIO()
        self._write(out, self._schema, values)
        if out.tell() > MAX_EVENT_BYTES:
            said = (
                f"has {out.tell():,} bytes as an event; Salesforce takes up to "
                f"{MAX_EVENT_BYTES:,}: shorten or split it"
            )
            return None, [RecordMistake(field="", said=said)]
        return OutgoingEvent(number=number, id=event_id, payload=out.getvalue()), []


@dataclass(slots=True)
class RecordFindings:
    """Mistakes in records: the first ones in words, the rest counted."""

    records: int = 0
    wrong: int = 0
    mistakes: int = 0
    shown: list[str] = field(default_factory=list)

    def note(self, given: GivenRecord, mistakes: list[RecordMistake]) -> None:
        self.records += 1
        self.wrong += bool(mistakes)
        self.mistakes += len(mistakes)
        room = SHOWN - len(self.shown)
        self.shown += [f"{given.name}: {mistake}" for mistake in mistakes[:room]]

    def refuse(self, encoder: EventEncoder, *, whole: bool = True) -> None:
        """Raise the mistakes, if there are any.

        :param whole: all records were checked before any is sent.
        :raises ConfigurationError: naming them.
        """
        if not self.wrong:
            return
        left = self.mistakes - len(self.shown)
        lines = [
            f"{self.wrong} of {counted(self.records, 'record')} cannot be published to "
            f"{encoder.topic}, and nothing is sent:"
            if whole
            else f"A record cannot be published to {encoder.topic}. Those before it are sent, as "
            "their results say; those after it were not taken:",
            *self.shown,
            *([f"and {left} more mistakes."] if left else []),
            f"Fields of the event: {', '.join(encoder.fields)}.",
        ]
        raise ConfigurationError("\n".join(lines))


def check(encoder: EventEncoder, records: Iterable[GivenRecord]) -> int:
    """Check every record against the schema and count them. Keeps none of them.

    :raises ConfigurationError: naming all mistakes, up to `SHOWN` of them one by one.
    """
    found = RecordFindings()
    for given, _, mistakes in _made(encoder, records):
        found.note(given, mistakes)
    found.refuse(encoder)
    return found.records


def checked(encoder: EventEncoder, records: Iterable[GivenRecord]) -> list[OutgoingEvent]:
    """Encode all records; a mistake in one of them refuses all.

    :raises ConfigurationError: naming all mistakes, as `check` does.
    """
    found, made = RecordFindings(), []
    for given, event, mistakes in _made(encoder, records):
        found.note(given, mistakes)
        made += [event] if event is not None else []
    found.refuse(encoder)
    return made


def events(encoder: EventEncoder, records: Iterable[GivenRecord]) -> Iterator[OutgoingEvent]:
    """The events of records, one by one.

    :raises ConfigurationError: at the first record that does not fit. Records that `check` has seen
        fit, unless they have changed.
    """
    for given, event, mistakes in _made(encoder, records):
        if event is None or mistakes:
            found = RecordFindings()
            found.note(given, mistakes)
            found.refuse(encoder, whole=False)
        else:
            yield event


def _made(
    encoder: EventEncoder, records: Iterable[GivenRecord]
) -> Iterator[tuple[GivenRecord, OutgoingEvent | None, list[RecordMistake]]]:
    """Events and mistakes, record by record.

    If the records name their ids, two with one id are a mistake.
    """
    first: dict[int, int] = {}
    for given in records:
        event, mistakes = encoder.event(given)
        if event is not None and encoder.id_field:
            before = first.setdefault(hash(event.id), given.number)
            if before != given.number:
                said = (
                    f"is {abridged(event.id)}, as that of record {before}; each event needs its "
                    "own id"
                )
                mistakes = [RecordMistake(field=encoder.id_field, said=said)]
        yield given, event, mistakes


def requests(
    outgoing: Iterable[OutgoingEvent], schema_id: str = ""
) -> Iterator[list[OutgoingEvent]]:
    """The events in order, in as few requests as the service's limits allow."""
    batch: list[OutgoingEvent] = []
    size = 0
    for event in outgoing:
        event_size = len(event.payload) + len(event.id.encode()) + len(schema_id) + _ENVELOPE_BYTES
        if batch and (len(batch) == MAX_REQUEST_EVENTS or size + event_size > MAX_REQUEST_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(event)
        size += event_size
    if batch:
        yield batch
