"""The test's side of an org's records: define, create, update, delete, undelete, look. Nothing here goes over the wire."""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus.change_events import DEFAULT_ORIGIN
from airflow_provider_sfevents.emulator.org import channel_edits
from airflow_provider_sfevents.emulator.org.objects import object_evolution
from airflow_provider_sfevents.emulator.org.record_transaction import Transaction
from airflow_provider_sfevents.emulator.org.records import record_views
from airflow_provider_sfevents.emulator.org.records.change_encoding import TransactionStamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from airflow_provider_sfevents.emulator.org.database import Database
    from airflow_provider_sfevents.emulator.org.objects.object_definitions import SObject
    from airflow_provider_sfevents.emulator.org.records.record_edits import Record

_VERSION = "64.0"


class RecordVerbs(ABC):
    """What a test does to an org's records; each change appears on the bus. Safe to use from any thread."""

    @property
    @abstractmethod
    def database(self) -> Database:
        """Objects and records."""

    def define_object(
        self,
        name: str,
        fields: Mapping[str, str] | None = None,
        *,
        required: Iterable[str] = (),
        tracked: bool = True,
        selected: bool = True,
    ) -> str:
        """Add an object with records, or change one's fields; the topic of its change events.

        :param name: `Employee__c`, or a built-in one: Account, Contact, Opportunity, Lead. Those are there when they are
            first used; defining one is for adding fields, or for a topic before there are records.
        :param fields: Salesforce types by field name, behind the fields every object has.
        :param required: names, as REST has them, that a new record must have.
        :param tracked: whether its changes are published at all; where not, the others' sequence numbers have gaps.
        :param selected: whether `/data/ChangeEvents` carries them.
        """
        made = self.database.define(
            name, fields, required=required, tracked=tracked, selected=selected
        )
        topic = made.schema(snapshot=True)["name"]
        return f"/data/{topic}" if tracked else ""

    def create(
        self,
        entity: str,
        fields: Mapping[str, Any],
        *,
        gap: bool = False,
        origin: str | None = None,
    ) -> str:
        """Add a record; its id.

        :param fields: by name as REST has them (`BillingCity`), or a compound as a dict of its members.
        :param gap: let the change event only say that something changed.
        :param origin: what the change event says of where it came from.
        """
        with self.transaction(origin=origin) as changes:
            return changes.create(entity, fields, gap=gap)

    def update(
        self,
        record_ids: str | Sequence[str],
        fields: Mapping[str, Any],
        *,
        gap: bool = False,
        origin: str | None = None,
    ) -> None:
        """Give fields of one or several records other values; None takes one away."""
        with self.transaction(origin=origin) as changes:
            for record_id in _several(record_ids):
                changes.update(record_id, fields, gap=gap)

    def delete(
        self, record_ids: str | Sequence[str], *, gap: bool = False, origin: str | None = None
    ) -> None:
        """Put records into the recycle bin."""
        with self.transaction(origin=origin) as changes:
            for record_id in _several(record_ids):
                changes.delete(record_id, gap=gap)

    def undelete(
        self, record_ids: str | Sequence[str], *, gap: bool = False, origin: str | None = None
    ) -> None:
        """Take records out of the recycle bin."""
        with self.transaction(origin=origin) as changes:
            for record_id in _several(record_ids):
                changes.undelete(record_id, gap=gap)

    @contextmanager
    def transaction(
        self, *, origin: str | None = None, key: str = "", user_id: str = ""
    ) -> Iterator[Transaction]:
        """Make several changes one transaction: all are carried out when the block ends, none when it fails.

        :param origin: `com/salesforce/api/rest/64.0;client=...`, or empty as for a change by the platform itself.
        :param key: transaction key; made up where it is not given.
        :param user_id: who makes them; the integration user where it is not given.
        """
        changes = Transaction(self.database, user_id=user_id)
        yield changes
        changes.commit(
            TransactionStamp(
                origin=DEFAULT_ORIGIN if origin is None else origin, key=key or str(uuid.uuid4())
            )
        )

    def convert_field(self, entity: str, field: str, kind: str, *, gap: bool = False) -> None:
        """Give a field another type, which loses its values: the event names all records by a wildcard, `001*`.

        :param gap: a GAP_UPDATE in place of an update that names the field.
        """
        database = self.database
        with database.lock:
            made = object_evolution.converted(database.sobject(entity), field, kind)
            database.empty(made, field, gap=gap)

    def enrich(self, channel: str, fields: Mapping[str, Iterable[str]]) -> None:
        """Let a channel's updates and deletions carry fields that did not change.

        :param fields: by entity, ten at most; a compound by its own name.
        """
        wanted = {entity: tuple(names) for entity, names in fields.items()}
        channel_edits.enrich(self.database, channel, wanted)

    def record(
        self, record_id: str, *, shape: Literal["rest", "event"] = "rest"
    ) -> dict[str, Any] | None:
        """Record as it is; None where it is deleted or was never there.

        :param shape: as REST shows it, or as its change events have it with times in ISO-8601.
        """
        sobject = self.database.sobject(self.database.entity_of(record_id))
        found = self.database.record(sobject.name, salesforce_ids.long_id(record_id[:15]))
        if found is None or found.deleted_at is not None:
            return None
        return _shown(found, sobject, shape)

    def records(
        self, entity: str, *, shape: Literal["rest", "event"] = "rest", deleted: bool = False
    ) -> list[dict[str, Any]]:
        """Every record of an object, in the order they were made.

        :param deleted: those in the recycle bin instead.
        """
        sobject = self.database.sobject(entity)
        kept = [
            one
            for one in self.database.records(sobject.name)
            if (one.deleted_at is not None) == deleted
        ]
        return [_shown(one, sobject, shape) for one in kept]


def _shown(record: Record, sobject: SObject, shape: str) -> dict[str, Any]:
    if shape == "event":
        return {"Id": record.id, **record_views.as_event(record, sobject)}
    return record_views.row(record, record_views.every_column(sobject), sobject, _VERSION)


def _several(record_ids: str | Sequence[str]) -> Sequence[str]:
    return [record_ids] if isinstance(record_ids, str) else record_ids
