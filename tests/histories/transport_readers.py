"""Reader of one topic over one API, as a chain of batches: event rows, and records made of them.

A row is what the Spark job's decoder makes of a staged payload. Spark and Airflow are not needed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider_sfevents.exceptions import ReplayIdRefusedError, SfEventsError
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.replay_point import EARLIEST, ReplayPoint
from airflow_provider_sfevents.spark.avro.decode import HEADER
from airflow_provider_sfevents.spark.avro.json_decoder import JsonMessages
from airflow_provider_sfevents.spark.avro.reference_decoder import Reference
from airflow_provider_sfevents.spark.changes.fields import Layout
from airflow_provider_sfevents.spark.changes.order import EventOrder, before_batch
from airflow_provider_sfevents.spark.changes.source import ChangeBatch, ChangeSource, admit
from airflow_provider_sfevents.spark.current_state.event_rows import (
    decoded_events,
    event_of,
)
from airflow_provider_sfevents.spark.current_state.frames import rows_of
from airflow_provider_sfevents.spark.current_state.value_translation import (
    Target,
    Translation,
)
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.schema.field_types import Column, record_fields
from airflow_provider_sfevents.staging.manifest import JSON
from tests.histories.lake import Lake

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.pubsub.streaming.delivery import Delivery
    from airflow_provider_sfevents.spark.avro.reference_decoder import PayloadDecoder
    from airflow_provider_sfevents.spark.changes.event import Change

BEGAN = datetime(2026, 11, 1, tzinfo=UTC)
IDLE_SECONDS = 0.05
Row = tuple[Any, ...]


@dataclass(kw_only=True)
class TopicReader:
    """Reader of one topic.

    :param entity: object of the topic's change events; empty for platform events.
    :ivar rows: landed rows by event, the first of each event.
    :ivar repeats: deliveries of an event that had landed.
    :ivar failed: errors that ended a batch without an event.
    """

    client: TopicClient
    topic: str
    entity: str = ""
    rows: dict[str, Row] = field(default_factory=dict)
    repeats: int = 0
    failed: list[str] = field(default_factory=list)
    lake: Lake = field(default_factory=lambda: Lake(new_entities="empty"))
    _start: ReplayPoint = EARLIEST
    _number: int = 0
    _end: str = EARLIEST.to_text()
    _losses: tuple[str, ...] = ()
    _layouts: dict[str, Layout] = field(default_factory=dict)
    _decoders: dict[str, tuple[list[Column], PayloadDecoder]] = field(default_factory=dict)

    async def batch(self, max_events: int, *, dies: bool = False) -> None:
        """Read and land one batch; a reader that dies leaves all of it to the next one."""
        came: list[Delivery] = []

        async def receive(delivery: Delivery) -> None:
            came.append(delivery)

        bounds = Bounds(max_events=max_events, idle_seconds=IDLE_SECONDS, max_seconds=30)
        try:
            result = await self.client.fetch(self.topic, self._start, bounds, receive)
        except ReplayIdRefusedError as refused:
            self._start, self._losses = EARLIEST, ("the replay id has expired",)
            self._end = EARLIEST.to_text()
            self.failed.append(str(refused))
            return
        except SfEventsError as error:
            self.failed.append(str(error))
            return
        came += result.beyond
        if came and not dies:
            await self._land(came, result.ended_by if not result.beyond else "max_events")

    def silence(self) -> None:
        """Apply a batch without events, which completes the last transaction."""
        if self._layouts:
            self._apply(self._batch("idle_seconds", self._end), [])

    async def _land(self, came: list[Delivery], ended_by: str) -> None:
        last = came[-1].replay_ids[-1]
        batch = self._batch(ended_by, last.hex())
        generation = admit(self.lake.progress, batch).generation
        place = before_batch(generation, batch.batch_number)
        rows, events = await self._decoded(came, place)
        changes: list[Change] = []
        ids = [one for delivery in came for one in delivery.ids]
        for at, row in enumerate(rows):
            identity = events[at].identity if events else ids[at]
            if identity in self.rows:
                self.repeats += 1
                continue
            self.rows[identity] = row
            changes += events[at : at + 1]
        self._start = ReplayPoint.after(last)
        if self.entity:
            self._apply(batch, changes)

    async def _decoded(
        self, came: list[Delivery], place: EventOrder
    ) -> tuple[list[Row], list[Change]]:
        """Rows of a batch, and its change events; a topic here has one schema."""
        [schema_id] = {one for delivery in came for one in delivery.schema_ids}
        columns, decoder = await self._decoder(schema_id)
        decoded = decoder([one for delivery in came for one in delivery.payloads])
        assert not decoded.reasons, decoded.reasons
        rows = [
            (schema_id, *row)
            for row in zip(
                decoded.times.to_pylist(), *(one.to_pylist() for one in decoded.arrays), strict=True
            )
        ]
        if not self.entity:
            return rows, []
        own = [one for one in columns if one.name != HEADER]
        self._layouts[self.entity] = Layout(columns=tuple(own))
        targets = {one.name: Target(column=one.name, had=one.type, wanted=one.type) for one in own}
        landed = pa.RecordBatch.from_pydict(
            {
                envelope.ORDINAL: list(range(len(rows))),
                envelope.RECEIVED_AT: [BEGAN] * len(rows),
                envelope.SCHEMA_ID: [schema_id] * len(rows),
                **{one.name: of for one, of in zip(columns, decoded.arrays, strict=True)},
            }
        )
        way = Translation(columns=tuple(own), targets={schema_id: targets})
        [found] = decoded_events(place, self.entity, way, iter([landed]))
        return rows, [event_of(row) for row in rows_of(found)]

    async def _decoder(self, schema_id: str) -> tuple[list[Column], PayloadDecoder]:
        if schema_id not in self._decoders:
            text = await self.client.get_schema(schema_id)
            fields = record_fields(json.loads(text))
            columns = [Column(name=name, field=name, type=kind) for name, kind in fields]
            of_json = self.client.payload_format == JSON
            decoder = JsonMessages(text, columns) if of_json else Reference(text, columns)
            self._decoders[schema_id] = (columns, decoder)
        return self._decoders[schema_id]

    def _batch(self, ended_by: str, end: str) -> ChangeBatch:
        self._number += 1
        return ChangeBatch(
            source=ChangeSource(org_id="org", consumer="lake", topic=self.topic),
            epoch="e1",
            batch_number=self._number,
            start=self._end,
            end=end,
            ended_by=ended_by,
            opened_at=BEGAN,
            losses=self._losses,
        )

    def _apply(self, batch: ChangeBatch, changes: list[Change]) -> None:
        assert self.lake.apply(batch, changes, self._layouts)
        self._end, self._losses = batch.end, ()
