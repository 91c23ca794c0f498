"""Encoding of planned change events, with size limit and enrichment."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.bus.change_events import (
    DEFAULT_ORIGIN,
    ChangeMessage,
    to_record,
)
from airflow_provider_sfevents.emulator.bus.payload_codec import codec_for
from airflow_provider_sfevents.emulator.bus.topic import EncodedEvent
from airflow_provider_sfevents.emulator.errors import EmulatorError

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.bus.topic import BusTopic
    from airflow_provider_sfevents.emulator.org.records.change_ordering import PlannedEvent


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionStamp:
    """Common facts of one transaction's change events.

    :param origin: origin in the change events.
    :param key: transaction key.
    """

    origin: str = DEFAULT_ORIGIN
    key: str = field(default_factory=lambda: str(uuid.uuid4()))


def encode(
    planned: PlannedEvent,
    topic: BusTopic | None,
    how: TransactionStamp,
    at: datetime,
    commit_number: int,
    bus: Bus,
) -> tuple[str, EncodedEvent]:
    """Encode a change event and return it with its topic; above 1 MB it becomes a gap event.

    :param topic: of the object's change events.
    :raises EmulatorError: the object has no change events.
    """
    if topic is None:
        raise EmulatorError(f"{planned.entity} has no change events")
    codec = codec_for(bus.schema(topic.schema_id) or "")
    values = to_record(_change(planned, how, at, commit_number), codec.schema)
    payload = codec.encode(values)
    if len(payload) > bus.knobs.max_event_bytes and not planned.change_type.startswith("GAP_"):
        gap = f"GAP_{planned.change_type}"
        less = replace(planned, change_type=gap, fields={}, diffs=(), enriched={})
        return encode(less, topic, how, at, commit_number, bus)
    event_id = str(uuid.uuid4()) if bus.knobs.change_event_ids else ""
    carried = {
        channel: codec.encode({**values, **_enriched(values, added)})
        for channel, added in planned.enriched.items()
        if added and topic.name in getattr(bus.topic(channel), "members", ())
    }
    return topic.name, EncodedEvent(event_id, topic.schema_id, payload, carried)


def _change(
    planned: PlannedEvent, how: TransactionStamp, at: datetime, commit_number: int
) -> ChangeMessage:
    return ChangeMessage(
        entity=planned.entity,
        change_type=planned.change_type,
        record_ids=planned.record_ids,
        user_id=planned.user_id,
        committed_at=at,
        fields=planned.fields,
        diff_fields=planned.diffs,
        transaction_key=how.key,
        sequence_number=planned.sequence_number,
        commit_number=commit_number,
        origin=how.origin,
    )


def _enriched(values: Mapping[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """Values added by enrichment; of a partly changed compound, the unchanged members."""
    return {
        name: {**value, **values[name]}
        if isinstance(value, Mapping) and isinstance(values.get(name), Mapping)
        else values.get(name, value)
        for name, value in added.items()
    }
