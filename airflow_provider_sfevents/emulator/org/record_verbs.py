"""Verbs of a test for an org's records: define, create, update, delete, undelete, read."""

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
    """Verbs for an org's records; each change is published. Safe to use from any thread."""

    @property
    @abstractmethod
    def database(self) -> Database:
        """Database with the objects and records."""

    def define_object(
        self,
        name: str,
        fields: Mapping[str, str] | None = None,
        *,
        required: Iterable[str] = (),
        tracked: bool = True,
        selected: bool = True,
    ) -> str:
        """Define an object, or change its fields; return the topic of its change events.

        :param name: `Employee__c`, or a built-in object: Account, Contact, Opportunity, Lead. Those
            exist from their first use; defining one adds fields, or creates its topic before its
            records.
        :param fields: Salesforce types by field name, after the fields of every object.
        :param required: REST names of fields that a new record must have.
        :param tracked: changes are published; otherwise the sequence numbers of other objects have
            gaps.
        :param selected: `/data/ChangeEvents` carries them.
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
        """Create a record and return its id.

        :param fields: values by REST name (`BillingCity`), or a compound as a dict of its members.
        :param gap: publish a gap event, which states only that something changed.
        :param origin: origin in the change event.
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
        """Update fields of one or several records; None removes a value."""
        with self.transaction(origin=origin) as changes:
            for record_id in _several(record_ids):
                changes.update(record_id, fields, gap=gap)

    def delete(
        self, record_ids: str | Sequence[str], *, gap: bool = False, origin: str | None = None
    ) -> None:
        """Move records to the recycle bin."""
        with self.transaction(origin=origin) as changes:
            for record_id in _several(record_ids):
                changes.delete(record_id, gap=gap)

    def undelete(
        self, record_ids: str | Sequence[str], *, gap: bool = False, origin: str | None = None
    ) -> None:
        """Restore records from the recycle bin."""
        with self.transaction(origin=origin) as changes:
            for record_id in _several(record_ids):
                changes.undelete(record_id, gap=gap)

    @contextmanager
    def transaction(
        self, *, origin: str | None = None, key: str = "", user_id: str = ""
    ) -> Iterator[Transaction]:
        """Group changes into one transaction, carried out at the end of the block unless it fails.

        :param origin: `com/salesforce/api/rest/64.0;client=...`, or empty for a change by the
            platform.
        :param key: transaction key; generated if not given.
        :param user_id: user of the changes; the integration user if not given.
        """
        changes = Transaction(self.database, user_id=user_id)
        yield changes
        changes.commit(
            TransactionStamp(
                origin=DEFAULT_ORIGIN if origin is None else origin, key=key or str(uuid.uuid4())
            )
        )

    def convert_field(self, entity: str, field: str, kind: str, *, gap: bool = False) -> None:
        """Change a field's type, which removes its values.

        The event names all records by a wildcard, `001*`.

        :param gap: publish a GAP_UPDATE instead of an update that names the field.
        """
        database = self.database
        with database.lock:
            made = object_evolution.converted(database.sobject(entity), field, kind)
            database.empty(made, field, gap=gap)

    def enrich(self, channel: str, fields: Mapping[str, Iterable[str]]) -> None:
        """Make a channel's updates and deletions carry unchanged fields.

        :param fields: fields by entity, at most ten; a compound by its own name.
        """
        wanted = {entity: tuple(names) for entity, names in fields.items()}
        channel_edits.enrich(self.database, channel, wanted)

    def record(
        self, record_id: str, *, shape: Literal["rest", "event"] = "rest"
    ) -> dict[str, Any] | None:
        """Current record; None if it is deleted or never existed.

        :param shape: form of REST, or of change events with times in ISO-8601.
        """
        sobject = self.database.sobject(self.database.entity_of(record_id))
        found = self.database.record(sobject.name, salesforce_ids.long_id(record_id[:15]))
        if found is None or found.deleted_at is not None:
            return None
        return _shown(found, sobject, shape)

    def records(
        self, entity: str, *, shape: Literal["rest", "event"] = "rest", deleted: bool = False
    ) -> list[dict[str, Any]]:
        """Every record of an object, in order of creation.

        :param deleted: records in the recycle bin instead.
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
