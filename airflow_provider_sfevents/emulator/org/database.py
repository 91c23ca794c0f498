"""Database of an org: objects and records, changed, published and logged together.

The records of a transaction and its change events are one record of the bus's journal, so after a
kill both exist or neither does. So are an object's definition and the topic of its change events.
"""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus import avro_schemas
from airflow_provider_sfevents.emulator.bus.payload_codec import milliseconds
from airflow_provider_sfevents.emulator.bus.topic import BusTopic, with_member
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.org import streaming_objects
from airflow_provider_sfevents.emulator.org.channels.channel_members import Channels
from airflow_provider_sfevents.emulator.org.channels.channel_selection import ChannelSelection
from airflow_provider_sfevents.emulator.org.objects import object_evolution
from airflow_provider_sfevents.emulator.org.objects.standard_objects import STANDARD
from airflow_provider_sfevents.emulator.org.record_errors import not_found
from airflow_provider_sfevents.emulator.org.records.change_encoding import TransactionStamp, encode
from airflow_provider_sfevents.emulator.org.records.change_ordering import PlannedEvent, arrange
from airflow_provider_sfevents.emulator.org.records.record_edits import (
    ChangeDraft,
    Record,
    RecordEdit,
    apply,
    body,
)
from airflow_provider_sfevents.emulator.org.streaming import push_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.bus.topic import EncodedEvent
    from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
    from airflow_provider_sfevents.emulator.org.objects.object_definitions import SObject

ALL_CHANGES = "/data/ChangeEvents"
_NOTED = 1_000  # records in one note
_FIRST_NUMBER = 1_000_000  # so that ids do not start with zeros


class Database:
    """Objects and records of one org. Safe to use from any thread.

    :param user_id: default user of changes.
    """

    def __init__(self, *, bus: Bus, clock: EmulatorClock, user_id: str) -> None:
        self.bus = bus
        self.clock = clock
        self.user_id = user_id
        self.lock = threading.RLock()
        self._objects: dict[str, SObject] = {}
        self._untouched: dict[tuple[str, str], SObject] = {}
        self._tables: dict[str, dict[str, Record]] = {}
        self.channels = Channels()
        self._channel_selection = ChannelSelection(bus, self.channels, clock)
        self._number = _FIRST_NUMBER
        self._commit_number = 0
        for note in bus.take_notes():
            self._restore(json.loads(note))
        bus.mark_channels = self._channel_selection.mark_channels
        bus.current_notes = self._current_notes
        self._offer_topics()

    # --- objects ----------------------------------------------------------------------------------

    @property
    def objects(self) -> tuple[SObject, ...]:
        with self.lock:
            return tuple(self._objects.values())

    def defined(self, name: str) -> SObject | None:
        """Defined object, by its exact name."""
        with self.lock:
            return self._objects.get(name)

    def sobject(self, name: str) -> SObject:
        """Object by its name in any case.

        An object without a definition gets its topic with its first record.

        :raises RecordRefusedError: unknown object.
        """
        with self.lock:
            for known in self.names:
                if known.lower() == name.lower():
                    return self._objects.get(known) or self._untouched_object(known)
        raise not_found(
            f"object {name!r}; there are {', '.join(self.names)}; define_object() adds one"
        )

    def define(
        self,
        name: str,
        fields: Mapping[str, str] | None = None,
        *,
        required: Iterable[str] = (),
        tracked: bool = True,
        selected: bool = True,
    ) -> SObject:
        """Define an object, or change its fields; its records stay.

        :raises EmulatorError: the name is neither built in nor a custom object's, or a type is
            unknown.
        """
        with self.lock:
            made = self._made(name, fields or {}, required=tuple(required), tracked=tracked)
            self.put(made, selected=selected)
            return made

    def put(self, sobject: SObject, *, selected: bool | None = None) -> str:
        """Store a definition of an object and return its change events' schema id.

        :param selected: `/data/ChangeEvents` carries it; None: unchanged.
        """
        with self.lock:
            topics = self._topics_of(sobject, selected=selected)
            before = self._objects.get(sobject.name)
            gone = set(before.fields) - set(sobject.fields) if before else set()
            without = self._without(sobject.name, gone) if gone else []
            self.keep({"define": sobject.to_json(), "records": without}, topics=topics)
            return topics[0].schema_id if topics else ""

    def _made(
        self,
        name: str,
        fields: Mapping[str, str],
        *,
        required: tuple[str, ...] = (),
        tracked: bool = True,
    ) -> SObject:
        return object_evolution.define(
            name,
            fields,
            required=required,
            tracked=tracked,
            known=self.objects,
            knobs=self.bus.knobs,
        )

    @property
    def names(self) -> list[str]:
        """Names of defined and built-in objects, and of custom entities with change events."""
        entities = [one.record for one in self.bus.topics if one.kind == "change"]
        adoptable = [one for one in entities if one.endswith("__c")]
        return list(dict.fromkeys((*self._objects, *STANDARD, *adoptable)))

    def _topic(self, entity: str) -> BusTopic | None:
        return self.bus.topic(f"/data/{avro_schemas.change_event_name(entity)}")

    def _untouched_object(self, name: str) -> SObject:
        """Default definition of an object that was neither defined nor used."""
        topic = self._topic(name)
        key = (name, topic.schema_id if topic else "")
        if key not in self._untouched:
            schema = json.loads(self.bus.schema(key[1]) or "{}")
            self._untouched[key] = (
                object_evolution.adopted(name, schema, self.objects, self.bus.knobs)
                if topic
                else self._made(name, {})
            )
        return self._untouched[key]

    def _topics_of(self, sobject: SObject, *, selected: bool | None = None) -> list[BusTopic]:
        """Topics to define for an object: that of its change events first; its schema is added."""
        if not sobject.tracked:
            return []
        schema = sobject.schema(snapshot=self.bus.knobs.snapshot_symbol)
        schema_id = avro_schemas.schema_id(schema)
        topic = f"/data/{schema['name']}"
        self.bus.add_schema(schema_id, avro_schemas.to_json(schema))
        own = BusTopic(name=topic, kind="change", record=sobject.name, schema_id=schema_id)
        if not selected:
            return [own]
        channel = self.bus.topic(ALL_CHANGES) or BusTopic(name=ALL_CHANGES, kind="channel")
        return [own, with_member(channel, topic)]

    # --- records ----------------------------------------------------------------------------------

    def record(self, entity: str, record_id: str) -> Record | None:
        """Record by its 18-character id, including deleted ones."""
        with self.lock:
            return self._tables.get(entity, {}).get(record_id)

    def _offer_topics(self) -> None:
        """Define the topics that records of the Streaming API stand for."""
        records = [one for entity in streaming_objects.OBJECTS for one in self.records(entity)]
        streaming_objects.offer_topics(self.bus, records)

    def records(self, entity: str) -> list[Record]:
        """Every record of an object in order of creation, including deleted ones."""
        with self.lock:
            return list(self._tables.get(entity, {}).values())

    def new_id(self, sobject: SObject) -> str:
        with self.lock:
            self._number += 1
            return salesforce_ids.record_id(f"{sobject.prefix}gL00000", self._number)

    def entity_of(self, record_id: str) -> str:
        """Object named by the first three characters of a record id.

        :raises EmulatorError: invalid id, or no object has its prefix.
        """
        if not salesforce_ids.is_id(record_id):
            raise EmulatorError(f"{record_id!r} is not a record id; it has 15 or 18 characters")
        for name in self.names:
            if record_id.startswith(self.sobject(name).prefix):
                return name
        raise EmulatorError(f"record {record_id}: no object here has the prefix {record_id[:3]!r}")

    def next_commit_number(self) -> int:
        """Next commit number.

        Newer orgs use numbers of about nanoseconds, which a double cannot hold.
        """
        with self.lock:
            now = milliseconds(self.clock.now()) * 1_000_000
            self._commit_number = max(self._commit_number + 1, now)
            return self._commit_number

    def commit(self, edits: Sequence[RecordEdit], how: TransactionStamp) -> list[bytes]:
        """Carry out edits as one transaction and return the replay ids of its events.

        :raises RecordRefusedError: an edit is not possible; then none is made.
        """
        with self.lock:
            for entity in dict.fromkeys(edit.entity for edit in edits):
                if entity not in self._objects:
                    self.put(self.sobject(entity), selected=self._topic(entity) is None or None)
            at = self.clock.now().replace(microsecond=0)
            after: dict[str, Record] = {}
            drafts = [self._apply(edit, after, milliseconds(at)) for edit in edits]
            knobs = self.bus.knobs
            planned = arrange(
                [(draft, self._enrichment(draft)) for draft in drafts],
                most_records=knobs.records_per_event,
                most_changes=knobs.overflow_changes,
            )
            # The numbers of untracked objects are missing, as on the platform.
            published = [one for one in planned if self._objects[one.entity].tracked]
            note = {"records": [_to_json(one) for one in after.values()], "number": self._number}
            pushed = push_topics.events(
                self.records(push_topics.PUSH_TOPIC), drafts, self.sobject, self.clock.now()
            )
            replay_ids = self._publish(published, how, at, note, pushed)
            if any(edit.entity in streaming_objects.OBJECTS for edit in edits):
                self._offer_topics()
            return replay_ids

    def empty(self, sobject: SObject, name: str, *, gap: bool) -> list[bytes]:
        """Store a definition that changes a field's type, and remove the field's values."""
        with self.lock:
            event = PlannedEvent(
                change_type="GAP_UPDATE" if gap else "UPDATE",
                entity=sobject.name,
                record_ids=(f"{sobject.prefix}*",),
                user_id=self.user_id,
                sequence_number=1,
                fields={} if gap else {name: None},
            )
            planned = [event] if sobject.tracked else []
            note = {
                "define": sobject.to_json(),
                "records": self._without(sobject.name, {name}),
            }
            how, topics = TransactionStamp(origin=""), self._topics_of(sobject)
            return self._publish(planned, how, self.clock.now(), note, topics=topics)

    def preview(self, edit: RecordEdit, before: Record | None) -> Record:
        """Record as it would be after an edit; nothing is stored.

        :raises RecordRefusedError: the edit is not possible.
        """
        at = milliseconds(self.clock.now().replace(microsecond=0))
        return apply(edit, self.sobject(edit.entity), before, at)[0]

    # --- inside -----------------------------------------------------------------------------------

    def _without(self, entity: str, names: set[str]) -> list[list[Any]]:
        """Journal form of an object's records, without the values of these fields."""
        return [
            [
                *_to_json(one)[:2],
                {k: v for k, v in one.values.items() if k not in names},
                one.deleted_at,
            ]
            for one in self.records(entity)
        ]

    def _apply(self, edit: RecordEdit, after: dict[str, Record], at: int) -> ChangeDraft:
        before = after.get(edit.record_id) or self.record(edit.entity, edit.record_id)
        made, draft = apply(
            edit, self._objects[edit.entity], before, at, hashed=self.bus.knobs.diff_hash
        )
        after[edit.record_id] = made
        return draft

    def _enrichment(self, draft: ChangeDraft) -> dict[str, dict[str, Any]]:
        """Values that channels add to an update or a deletion; missing values are not added."""
        if draft.change_type not in {"UPDATE", "DELETE"}:
            return {}
        found: dict[str, dict[str, Any]] = {}
        topic = f"/data/{avro_schemas.change_event_name(draft.entity)}"
        for channel, names in self._channel_selection.added(topic).items():
            whole = body(self._objects[draft.entity], draft.record)
            found[channel] = {name: of for name, of in whole.items() if name in names}
        return found

    def _publish(
        self,
        planned: Sequence[PlannedEvent],
        how: TransactionStamp,
        at: datetime,
        note: dict[str, Any],
        pushed: Sequence[tuple[str, EncodedEvent]] = (),
        topics: Sequence[BusTopic] = (),
    ) -> list[bytes]:
        """Publish change events and PushTopic events; return the replay ids of the former."""
        commit_number = self.next_commit_number()
        made = {one.record: one for one in topics}
        events = [
            encode(
                one,
                made.get(one.entity) or self._topic(one.entity),
                how,
                at,
                commit_number,
                self.bus,
            )
            for one in planned
        ]
        fact = {**note, "commit_number": commit_number}
        replay_ids = self.keep(fact, [*events, *pushed], topics)
        return replay_ids[: len(events)]

    def keep(
        self,
        fact: dict[str, Any],
        events: Sequence[tuple[str, EncodedEvent]] = (),
        topics: Sequence[BusTopic] = (),
    ) -> list[bytes]:
        """Write a fact, its events and topics to the journal as one record, then apply it."""
        with self.bus.lock:  # so that no new journal file starts in between
            replay_ids = self.bus.commit(events, _note(fact), topics)
            self._restore(fact)
        return replay_ids

    def _current_notes(self) -> list[bytes]:
        """Notes with the full content, for a new journal file. The caller holds the bus's lock."""
        notes: list[dict[str, Any]] = [{"define": one.to_json()} for one in self._objects.values()]
        notes.append({"channels": self.channels.to_json()})
        for table in self._tables.values():
            rows = [_to_json(one) for one in table.values()]
            notes += [{"records": rows[at : at + _NOTED]} for at in range(0, len(rows), _NOTED)]
        notes.append({"number": self._number, "commit_number": self._commit_number})
        return [_note(one) for one in notes]

    def _restore(self, fact: dict[str, Any]) -> None:
        """Apply a note, whether new or read from the journal."""
        if made := fact.get("define"):
            self._objects[made["name"]] = object_evolution.restored(made)
        if channels := fact.get("channels"):
            self.channels.restore(channels)
        for record_id, entity, held, deleted_at in fact.get("records", ()):
            made = Record(id=record_id, entity=entity, values=held, deleted_at=deleted_at)
            self._tables.setdefault(entity, {})[record_id] = made
        self._number = max(self._number, fact.get("number", 0))
        self._commit_number = max(self._commit_number, fact.get("commit_number", 0))


def _note(fact: dict[str, Any]) -> bytes:
    return json.dumps(fact, separators=(",", ":")).encode()


def _to_json(record: Record) -> list[Any]:
    return [record.id, record.entity, record.values, record.deleted_at]
