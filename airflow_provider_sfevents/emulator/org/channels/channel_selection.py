"""Selection of events for channels by member filters, and the fields that channels add.

Gap events and unreadable events are carried: a filter drops only an event that it has read.
"""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.bus.payload_codec import codec_for
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.org.channels import channel_filters
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.bus.topic import EncodedEvent
    from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
    from airflow_provider_sfevents.emulator.org.channels.channel_members import (
        ChannelMember,
        Channels,
    )


class ChannelSelection:
    """Applies the settings of an org's channels to published events.

    It takes no lock, because the bus has one.
    """

    def __init__(self, bus: Bus, channels: Channels, clock: EmulatorClock) -> None:
        self._bus = bus
        self._channels = channels
        self._clock = clock

    def mark_channels(self, topic: str, event: EncodedEvent) -> EncodedEvent:
        """Copy of an event that marks the channels whose filters drop it."""
        settings = self._channels.of_topic(topic).items()
        filtered = {channel: one.filter for channel, one in settings if one.filter}
        if not filtered:
            return event
        carried = dict(event.on_channels)
        for channel, text in filtered.items():
            payload = carried.get(channel) or event.payload
            if not self._passes(text, event.schema_id, payload):
                carried[channel] = None
        return replace(event, on_channels=carried)

    def added(self, topic: str) -> dict[str, set[str]]:
        """Fields that channels add to a topic's updates and deletions, by channel.

        Compounds are given by their own names.
        """
        return {
            channel: {*member.enriched_fields, *self._of_filter(topic, member)}
            for channel, member in self._channels.of_topic(topic).items()
        }

    def _passes(self, text: str, schema_id: str, payload: bytes) -> bool:
        schema = self._bus.schema(schema_id)
        if schema is None:
            return True
        try:
            record = codec_for(schema).record(payload)
            asked = compiled(text, schema)
        except EmulatorError:
            return True
        header = record.get("ChangeEventHeader")
        if header and header["changeType"].startswith("GAP_"):
            return True
        return asked.lets_through(record, self._clock.now())

    def _of_filter(self, topic: str, member: ChannelMember) -> tuple[str, ...]:
        known = self._bus.topic(topic)
        schema = self._bus.schema(known.schema_id) if known else None
        if not member.filter or schema is None:
            return ()
        try:
            return compiled(member.filter, schema).fields
        except RecordRefusedError:  # the schema no longer has one of its fields
            return ()


@lru_cache(maxsize=256)
def compiled(text: str, schema_json: str) -> channel_filters.ChannelFilter:
    """Cached filter, checked against a schema.

    :raises RecordRefusedError: the filter does not fit the schema.
    """
    return channel_filters.read(text, json.loads(schema_json))
