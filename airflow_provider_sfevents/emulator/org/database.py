"""An org's objects and records. What is decided elsewhere is done here: kept, published, written to the log, all at once.

A transaction's records and its change events go into one record of the bus's log, so that after a kill both are there or
neither is.
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.bus.topic import EncodedEvent
    from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
    from airflow_provider_sfevents.emulator.org.objects.object_definitions import SObject

ALL_CHANGES = "/data/ChangeEvents"
_NOTED = 1_000  # records in one note
_FIRST_NUMBER = 1_000_000  # ids that begin with letters and digits, not with zeros


class Database:
    """The records of one org. Safe to use from any thread.

    :param user_id: who changes records where nobody else is named.
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
        self._carrying = ChannelSelection(bus, self.channels, clock)
        self._number = _FIRST_NUMBER
        self._commit_number = 0
        for note in bus.take_notes():
            self._restore(json.loads(note))
        bus.dress = self._carrying.dress
        bus.notes_now = self._notes_now

    # --- objects -----------------------------------------------------------------------------------------------------

    @property
    def objects(self) -> tuple[SObject, ...]:
        with self.lock:
            return tuple(self._objects.values())

    def defined(self, name: str) -> SObject | None:
        """Object that somebody defined, by its exact name."""
        with self.lock:
            return self._objects.get(name)

    def sobject(self, name: str) -> SObject:
        """Object by its name in any case; one that nobody has defined has its topic with its first record.

        :raises RecordRefusedError: when there is none.
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
        """Add an object, or change the fields of one; its records stay.

        :raises EmulatorError: for a name that is neither built in nor a custom object's, or an unknown type.
        """
        with self.lock:
            made = self._made(name, fields or {}, required=tuple(required), tracked=tracked)
            self.put(made, selected=selected)
            return made

    def put(self, sobject: SObject, *, selected: bool | None = None) -> str:
        """Take this definition for the object of its name; the id of its change events' schema.

        :param selected: whether `/data/ChangeEvents` carries it; None for as it was.
        """
        with self.lock:
            schema_id = self._publish_schema(sobject, selected=selected) if sobject.tracked else ""
            before = self._objects.get(sobject.name)
            gone = set(before.fields) - set(sobject.fields) if before else set()
            without = self._without(sobject.name, gone) if gone else []
            self.keep({"define": sobject.to_json(), "records": without})
            return schema_id

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
        """Objects that were defined, that are built in, and entities that have only had change events so far."""
        entities = [one.record for one in self.bus.topics if one.kind == "change"]
        adoptable = [one for one in entities if one.endswith("__c")]
        return list(dict.fromkeys((*self._objects, *STANDARD, *adoptable)))

    def _topic(self, entity: str) -> BusTopic | None:
        return self.bus.topic(f"/data/{avro_schemas.change_event_name(entity)}")

    def _untouched_object(self, name: str) -> SObject:
        """Object that nobody has defined as such or used yet."""
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

    def _publish_schema(self, sobject: SObject, *, selected: bool | None) -> str:
        schema = sobject.schema(snapshot=self.bus.knobs.snapshot_symbol)
        schema_id = avro_schemas.schema_id(schema)
        topic = f"/data/{schema['name']}"
        self.bus.add_schema(schema_id, avro_schemas.to_json(schema))
        self.bus.define(
            BusTopic(name=topic, kind="change", record=sobject.name, schema_id=schema_id)
        )
        if selected:
            channel = self.bus.topic(ALL_CHANGES) or BusTopic(name=ALL_CHANGES, kind="channel")
            self.bus.define(with_member(channel, topic))
        return schema_id

    # --- records -----------------------------------------------------------------------------------------------------

    def record(self, entity: str, record_id: str) -> Record | None:
        """Record by its 18-character id, deleted ones included."""
        with self.lock:
            return self._tables.get(entity, {}).get(record_id)

    def records(self, entity: str) -> list[Record]:
        """Every record of an object in the order they were made, deleted ones included."""
        with self.lock:
            return list(self._tables.get(entity, {}).values())

    def new_id(self, sobject: SObject) -> str:
        with self.lock:
            self._number += 1
            return salesforce_ids.record_id(f"{sobject.prefix}gL00000", self._number)

    def entity_of(self, record_id: str) -> str:
        """Object that a record id's first three characters name.

        :raises EmulatorError: when it is no id, or of no object here.
        """
        if not salesforce_ids.is_id(record_id):
            raise EmulatorError(f"{record_id!r} is no id of a record; it has 15 or 18 characters")
        for name in self.names:
            if record_id.startswith(self.sobject(name).prefix):
                return name
        raise EmulatorError(f"record {record_id}: no object here has the prefix {record_id[:3]!r}")

    def next_commit_number(self) -> int:
        """Newer orgs number commits in nanoseconds or thereabouts: more than a double can hold."""
        with self.lock:
            now = milliseconds(self.clock.now()) * 1_000_000
            self._commit_number = max(self._commit_number + 1, now)
            return self._commit_number

    def commit(self, edits: Sequence[RecordEdit], how: TransactionStamp) -> list[bytes]:
        """Carry out all of these, and publish them as one transaction; the replay ids of its events.

        :raises RecordRefusedError: when one of them cannot be; then none is.
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
            # Numbers of objects that nobody tracks are missing, as on the platform.
            told = [one for one in planned if self._objects[one.entity].tracked]
            note = {"records": [_to_json(one) for one in after.values()], "number": self._number}
            return self._publish(told, how, at, note)

    def empty(self, sobject: SObject, name: str, *, gap: bool) -> list[bytes]:
        """Put a definition in place in which this field has another type, and take its values away everywhere."""
        with self.lock:
            self.put(sobject)
            event = PlannedEvent(
                change_type="GAP_UPDATE" if gap else "UPDATE",
                entity=sobject.name,
                record_ids=(f"{sobject.prefix}*",),
                user_id=self.user_id,
                sequence_number=1,
                fields={} if gap else {name: None},
            )
            planned = [event] if sobject.tracked else []
            note = {"records": self._without(sobject.name, {name})}
            return self._publish(planned, TransactionStamp(origin=""), self.clock.now(), note)

    def preview(self, edit: RecordEdit, before: Record | None) -> Record:
        """Record as an edit would leave it; nothing is kept.

        :raises RecordRefusedError: when it cannot be done.
        """
        at = milliseconds(self.clock.now().replace(microsecond=0))
        return apply(edit, self.sobject(edit.entity), before, at)[0]

    # --- inside ------------------------------------------------------------------------------------------------------

    def _without(self, entity: str, names: set[str]) -> list[list[Any]]:
        """Records of an object as the log has them, without values of these fields."""
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
        """What channels add to an update or a deletion; no value needs no adding."""
        if draft.change_type not in {"UPDATE", "DELETE"}:
            return {}
        found: dict[str, dict[str, Any]] = {}
        topic = f"/data/{avro_schemas.change_event_name(draft.entity)}"
        for channel, names in self._carrying.added(topic).items():
            whole = body(self._objects[draft.entity], draft.record)
            found[channel] = {name: of for name, of in whole.items() if name in names}
        return found

    def _publish(
        self,
        planned: Sequence[PlannedEvent],
        how: TransactionStamp,
        at: datetime,
        note: dict[str, Any],
    ) -> list[bytes]:
        commit_number = self.next_commit_number()
        events = [encode(one, how, at, commit_number, self.bus) for one in planned]
        return self.keep({**note, "commit_number": commit_number}, events)

    def keep(
        self, fact: dict[str, Any], events: Sequence[tuple[str, EncodedEvent]] = ()
    ) -> list[bytes]:
        """Write a fact and its events to the log, then take it over."""
        with self.bus.lock:  # nobody who writes down all of it comes between
            replay_ids = self.bus.commit(events, _note(fact))
            self._restore(fact)
        return replay_ids

    def _notes_now(self) -> list[bytes]:
        """Notes that say all of it: what a new file of the log begins with. The bus is locked."""
        said: list[dict[str, Any]] = [{"define": one.to_json()} for one in self._objects.values()]
        said.append({"channels": self.channels.to_json()})
        for table in self._tables.values():
            rows = [_to_json(one) for one in table.values()]
            said += [{"records": rows[at : at + _NOTED]} for at in range(0, len(rows), _NOTED)]
        said.append({"number": self._number, "commit_number": self._commit_number})
        return [_note(one) for one in said]

    def _restore(self, fact: dict[str, Any]) -> None:
        """Take over what a note says, be it new or read from the log."""
        if made := fact.get("define"):
            self._objects[made["name"]] = object_evolution.restored(made)
        if told := fact.get("channels"):
            self.channels.restore(told)
        for record_id, entity, held, deleted_at in fact.get("records", ()):
            made = Record(id=record_id, entity=entity, values=held, deleted_at=deleted_at)
            self._tables.setdefault(entity, {})[record_id] = made
        self._number = max(self._number, fact.get("number", 0))
        self._commit_number = max(self._commit_number, fact.get("commit_number", 0))


def _note(fact: dict[str, Any]) -> bytes:
    return json.dumps(fact, separators=(",", ":")).encode()


def _to_json(record: Record) -> list[Any]:
    return [record.id, record.entity, record.values, record.deleted_at]
