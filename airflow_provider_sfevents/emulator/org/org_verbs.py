"""Verbs of a test for an org: define, evolve, publish, change, count. Not on the wire."""

from __future__ import annotations

import json
import uuid
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from airflow_provider_sfevents.emulator import api_names
from airflow_provider_sfevents.emulator.bus import avro_schemas
from airflow_provider_sfevents.emulator.bus.avro_types import FieldTypes
from airflow_provider_sfevents.emulator.bus.change_events import ChangeMessage, to_record
from airflow_provider_sfevents.emulator.bus.event_view import describe
from airflow_provider_sfevents.emulator.bus.payload_codec import codec_for, milliseconds
from airflow_provider_sfevents.emulator.bus.topic import BusTopic, EncodedEvent, with_member
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.managed.subscription_verbs import ManagedVerbs
from airflow_provider_sfevents.emulator.org import channel_edits
from airflow_provider_sfevents.emulator.org.channels.channel_members import ChannelMember
from airflow_provider_sfevents.emulator.org.database import Database
from airflow_provider_sfevents.emulator.org.objects import object_evolution
from airflow_provider_sfevents.emulator.org.record_verbs import RecordVerbs
from airflow_provider_sfevents.emulator.org.records.change_ordering import NO_RECORD

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
    from airflow_provider_sfevents.emulator.managed.subscription_registry import ManagedRegistry
    from airflow_provider_sfevents.emulator.state.call_log import CallLog, RecordedSubscription
    from airflow_provider_sfevents.emulator.state.org_identity import Identity

ALL_CHANGES = "/data/ChangeEvents"
OLD_IDS = ("refused", "behind", "ahead")
_FAR = 1_000_000  # positions; the bus of a test issues fewer


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgParts:
    """Parts of an org that its verbs use.

    :param database: objects and records, restored from the bus's journal.
    """

    identity: Identity
    bus: Bus
    clock: EmulatorClock
    call_log: CallLog
    managed: ManagedRegistry
    database: Database = field(init=False)

    def __post_init__(self) -> None:
        made = Database(bus=self.bus, clock=self.clock, user_id=self.identity.user_id)
        object.__setattr__(self, "database", made)


class OrgVerbs(RecordVerbs, ManagedVerbs):
    """Verbs of a test for one org. Safe to use from any thread."""

    @property
    @abstractmethod
    def _parts(self) -> OrgParts: ...

    @property
    @override
    def database(self) -> Database:
        return self._parts.database

    @property
    @override
    def managed(self) -> ManagedRegistry:
        """Registry of the org's managed subscriptions."""
        return self._parts.managed

    # --- definitions ------------------------------------------------------------------------------

    def define_event(
        self,
        name: str,
        fields: Mapping[str, str],
        *,
        can_publish: bool = True,
        can_subscribe: bool = True,
        standard_volume: bool = False,
    ) -> str:
        """Define a platform event and return its topic.

        :param fields: Salesforce types (`Text`, `Double`, `DateTime`, `DateOnly`, `Boolean` ...) by
            field name.
        :param standard_volume: kept for 24 hours, and not served by the Pub/Sub API.
        :raises EmulatorError: Salesforce allows no such name, or has no such type; or the event
            exists with another volume.
        """
        api_names.check(name, "event")
        topic = f"/event/{name}"
        before = self._parts.bus.topic(topic)
        if before and before.streaming_only != standard_volume:
            raise EmulatorError(f"{topic} exists, and the volume of an event cannot be changed")
        schema_id = self._add_schema(
            avro_schemas.platform_event_schema(name, fields, self._types())
        )
        self._parts.bus.define(
            BusTopic(
                name=topic,
                kind="event",
                record=name,
                schema_id=schema_id,
                can_publish=can_publish,
                can_subscribe=can_subscribe,
                streaming_only=standard_volume,
            )
        )
        return topic

    def define_entity(
        self, entity: str, fields: Mapping[str, str], *, selected: bool = True
    ) -> str:
        """Define an entity with change events and return their topic.

        :param fields: types by field name, in the order that bitmaps count.
        :param selected: `/data/ChangeEvents` carries it.
        :raises EmulatorError: Salesforce allows no such name, or has no such type.
        """
        api_names.check(entity, "entity")
        topic = f"/data/{avro_schemas.change_event_name(entity)}"
        schema = avro_schemas.change_event_schema(
            entity, fields, self._types(), snapshot=self._parts.bus.knobs.snapshot_symbol
        )
        self._parts.bus.define(
            BusTopic(name=topic, kind="change", record=entity, schema_id=self._add_schema(schema))
        )
        if selected:
            channel = self._parts.bus.topic(ALL_CHANGES) or BusTopic(
                name=ALL_CHANGES, kind="channel"
            )
            self._parts.bus.define(with_member(channel, topic))
        return topic

    def define_channel(self, name: str, members: Iterable[str | ChannelMember]) -> str:
        """Define a channel of several topics, or replace its members; return its name.

        :param name: `/data/X__chn` for change events, `/event/X__chn` for platform events.
        :param members: topics, or names of events and entities; a `ChannelMember` has a filter or
            enriched fields.
        """
        wanted = [ChannelMember(topic=one) if isinstance(one, str) else one for one in members]
        return channel_edits.put(self.database, name, wanted).name

    def evolve(
        self, name: str, add: Mapping[str, str] | None = None, *, remove: Iterable[str] = ()
    ) -> str:
        """Change the fields of an event or entity and return the new schema id.

        Events on the bus keep their schema.
        """
        topic = self._find(name)
        with self.database.lock:
            if sobject := self.database.defined(topic.record):
                made = object_evolution.evolved(sobject, add or {}, remove, self.database.objects)
                return self.database.put(made)
        schema = avro_schemas.evolved(self._schema(topic), add or {}, remove, self._types())
        schema_id = self._add_schema(schema)
        self._parts.bus.define(replace(topic, schema_id=schema_id))
        return schema_id

    def schema_id(self, name: str) -> str:
        """Id of the newest schema of an event or entity."""
        return self._find(name).schema_id

    # --- publishing -------------------------------------------------------------------------------

    def publish(
        self, topic: str, events: Iterable[Mapping[str, Any]], *, ids: Sequence[str] | None = None
    ) -> list[bytes]:
        """Publish platform events with the newest schema and return their replay ids.

        :param events: values by field name; dates and times as such, as ISO-8601 or as numbers of
            the wire. `CreatedDate` and `CreatedById` are added if missing.
        :param ids: ids of the events (EventUuid); generated if missing.
        """
        target = self._find(topic)
        if target.kind != "event":
            raise EmulatorError(
                f"{target.name} takes no published events; use change() for change events"
            )
        codec = codec_for(self._schema_json(target))
        created = {
            "CreatedDate": milliseconds(self._parts.clock.now()),
            "CreatedById": self._parts.identity.user_id,
        }
        payloads = [codec.encode({**created, **event}) for event in events]
        return self._append(target.name, payloads, target.schema_id, ids)

    def publish_raw(
        self,
        topic: str,
        payloads: bytes | Iterable[bytes],
        schema_id: str = "",
        *,
        ids: Sequence[str] | None = None,
    ) -> list[bytes]:
        """Publish payloads unchanged, decodable or not, and return their replay ids.

        :param schema_id: schema id of the events; the topic's newest if empty.
        """
        target = self._find(topic)
        several = [payloads] if isinstance(payloads, bytes) else list(payloads)
        return self._append(target.name, several, schema_id or target.schema_id, ids)

    def change(
        self,
        entity: str,
        change_type: str,
        record_ids: str | Sequence[str],
        fields: Mapping[str, Any] | None = None,
        *,
        event_id: str | None = None,
        **header: Any,
    ) -> bytes:
        """Publish a change event and return its replay id.

        :param fields: new values; for a compound a dict of the changed members, None for set to
            null. System fields are added.
        :param event_id: replaces the id by the knob `change_event_ids`.
        :param header: `diff_fields`, `changed_fields`, `transaction_key`, `sequence_number`,
            `origin`, `committed_at` or `user_id`, see `ChangeMessage`.
        """
        target = self._find(entity)
        if target.kind != "change":
            raise EmulatorError(
                f"{target.name} carries no change events; use publish() for platform events"
            )
        change = ChangeMessage(
            entity=target.record,
            change_type=change_type,
            record_ids=(record_ids,) if isinstance(record_ids, str) else tuple(record_ids),
            fields=fields or {},
            **{
                "user_id": self._parts.identity.user_id,
                "committed_at": self._parts.clock.now(),
                "commit_number": self.database.next_commit_number(),
                **header,
            },
        )
        codec = codec_for(self._schema_json(target))
        payload = codec.encode(to_record(change, codec.schema))
        if event_id is None:
            event_id = str(uuid.uuid4()) if self._parts.bus.knobs.change_event_ids else ""
        return self._append(target.name, [payload], target.schema_id, [event_id])[0]

    def gap(
        self, entity: str, change_type: str, record_ids: str | Sequence[str] = (), **header: Any
    ) -> bytes:
        """Publish a gap event without a change and return its replay id.

        :param change_type: `GAP_UPDATE` etc., or `GAP_OVERFLOW`, which has no records.
        :param header: as for `change`.
        """
        if not change_type.startswith("GAP_"):
            raise EmulatorError(f"change type {change_type!r} is not a gap; those begin with GAP_")
        if change_type == "GAP_OVERFLOW":
            record_ids = NO_RECORD
        return self.change(entity, change_type, record_ids, **header)

    # --- events of the org ------------------------------------------------------------------------

    def reset_replay_ids(self, old_ids: Literal["refused", "behind", "ahead"] = "refused") -> None:
        """Move the org: every event gets another replay id, and open streams end with UNAVAILABLE.

        :param old_ids: validity of earlier ids. `refused`: refused with `replayid.corrupted`, as
            documented. `behind`: valid and before all events on the bus, so that all are delivered
            again. `ahead`: valid and beyond the events on the bus, so that nothing is delivered
            until the bus has grown that far, and then only later events.
        """
        if old_ids not in OLD_IDS:
            raise EmulatorError(f"reset_replay_ids: {old_ids!r} is not one of {', '.join(OLD_IDS)}")
        bus = self._parts.bus
        bus.renumber(
            bus.position // 2 if old_ids == "ahead" else bus.position + _FAR,
            old_valid=old_ids != "refused",
        )

    def forget_schema(self, schema_id: str) -> None:
        """Make GetSchema refuse a schema, with the status of the knob `unknown_schema`.

        :param schema_id: schema id from `schema_id(name)`.
        """
        if self._parts.bus.schema(schema_id) is None:
            raise EmulatorError(f"schema {schema_id!r} was never in use here; see schema_id()")
        self._parts.bus.forget_schema(schema_id)

    # --- reading ----------------------------------------------------------------------------------

    def events(self, topic: str, *, last: int | None = None) -> list[dict[str, Any]]:
        """Decode the events on the bus, oldest first.

        Each has `replay_id`, `id`, `topic`, `schema_id`, `published_at` and `fields`.

        :param last: only this many of the newest.
        """
        bus = self._parts.bus
        return [describe(event, bus) for event in bus.retained(self._find(topic).name, last)]

    # --- call log ---------------------------------------------------------------------------------

    def deliveries(self, topic: str | None = None) -> int:
        """Number of events delivered to all subscribers, of one subscribed topic or of all."""
        return self._parts.call_log.deliveries(self._parts.identity.org_id, topic)

    @property
    def subscriptions(self) -> tuple[RecordedSubscription, ...]:
        """Every Subscribe and ManagedSubscribe stream so far, as a snapshot."""
        return tuple(
            one
            for one in self._parts.call_log.subscriptions()
            if one.org_id == self._parts.identity.org_id
        )

    # --- inside -----------------------------------------------------------------------------------

    def _append(
        self, topic: str, payloads: list[bytes], schema_id: str, ids: Sequence[str] | None
    ) -> list[bytes]:
        keys = [str(uuid.uuid4()) for _ in payloads] if ids is None else ids
        if len(keys) != len(payloads):
            raise EmulatorError(
                f"{len(payloads)} events and {len(keys)} ids; give one id for each event"
            )
        return self._parts.bus.append(
            topic,
            [
                EncodedEvent(key, schema_id, payload)
                for key, payload in zip(keys, payloads, strict=True)
            ],
        )

    def _types(self) -> FieldTypes:
        return FieldTypes(state_picklists=self._parts.bus.knobs.state_picklists)

    def _add_schema(self, schema: dict[str, Any]) -> str:
        schema_id = avro_schemas.schema_id(schema)
        self._parts.bus.add_schema(schema_id, avro_schemas.to_json(schema))
        return schema_id

    def _find(self, name: str) -> BusTopic:
        """Topic by its own name or by the name of its event or entity.

        :raises EmulatorError: the topic is not defined.
        """
        for topic in self._parts.bus.topics:
            names = {topic.name, topic.record} if topic.kind != "push" else {topic.name}
            if name and name in names:
                return topic
        known = ", ".join(topic.name for topic in self._parts.bus.topics) or "none"
        raise EmulatorError(
            f"{name!r} is not defined in org {self._parts.identity.org_id}; defined: {known}"
        )

    def _schema_json(self, topic: BusTopic) -> str:
        return self._parts.bus.schema(topic.schema_id) or ""

    def _schema(self, topic: BusTopic) -> dict[str, Any]:
        if topic.kind == "channel":
            raise EmulatorError(f"{topic.name} is a channel and has no schema of its own")
        return dict(json.loads(self._schema_json(topic)))
