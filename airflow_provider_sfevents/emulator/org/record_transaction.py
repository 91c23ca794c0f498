"""Transaction: each change is checked at once, and all are carried out together.

A person account consists of two records: changes to the account also apply to the contact behind
it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.org.records.record_edits import (
    Record,
    RecordEdit,
    read_given,
)
from airflow_provider_sfevents.emulator.org.streaming_objects import (
    OBJECTS,
    check,
    with_defaults,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.emulator.org.database import Database
    from airflow_provider_sfevents.emulator.org.objects.object_definitions import SObject
    from airflow_provider_sfevents.emulator.org.records.change_encoding import TransactionStamp
    from airflow_provider_sfevents.emulator.org.records.record_edits import Kind

_PERSON_CONTACT = "PersonContactId"
_PERSON_NAMES = ("Salutation", "FirstName", "LastName")


class Transaction:
    """Changes that wait for their commit.

    :param user_id: user of the changes.
    """

    def __init__(self, database: Database, *, user_id: str = "") -> None:
        self._database = database
        self._user_id = user_id or database.user_id
        self._edits: list[RecordEdit] = []
        self._after: dict[str, Record] = {}

    def create(self, entity: str, fields: Mapping[str, Any], *, gap: bool = False) -> str:
        """Add the creation of a record and return its id.

        :param fields: values by REST name, or a compound as a dict of its members.
        :param gap: publish a gap event, which states only that something changed.
        :raises RecordRefusedError: the creation is not possible; earlier changes stay.
        """
        sobject = self._database.sobject(entity)
        given = dict(with_defaults(sobject.name, read_given(sobject, fields)))
        record_id = self._database.new_id(sobject)
        if _is_person(sobject, given):
            contacts = self._database.sobject("Contact")
            contact_id = self._database.new_id(contacts)
            person = _as_contact(sobject, given)
            self._ask(
                "CREATE", sobject.name, record_id, {**given, _PERSON_CONTACT: contact_id}, gap
            )
            self._ask("CREATE", contacts.name, contact_id, {**person, "AccountId": record_id}, gap)
        else:
            self._ask("CREATE", sobject.name, record_id, given, gap)
        return record_id

    def update(self, record_id: str, fields: Mapping[str, Any], *, gap: bool = False) -> None:
        """Add an update of a record; None removes a value."""
        entity, record_id = self._known(record_id)
        sobject = self._database.sobject(entity)
        given = read_given(sobject, fields)
        contact_id = self._ask("UPDATE", entity, record_id, given, gap)
        person = _as_contact(sobject, given)
        if contact_id and person:
            self._ask("UPDATE", "Contact", contact_id, person, gap)

    def delete(self, record_id: str, *, gap: bool = False) -> None:
        """Add a deletion of a record."""
        self._with_contact("DELETE", record_id, gap)

    def undelete(self, record_id: str, *, gap: bool = False) -> None:
        """Add an undeletion of a record."""
        self._with_contact("UNDELETE", record_id, gap)

    def commit(self, how: TransactionStamp) -> list[bytes]:
        """Carry out all changes and return the replay ids of the events."""
        edits, self._edits = self._edits, []
        return self._database.commit(edits, how) if edits else []

    def _with_contact(self, kind: Kind, record_id: str, gap: bool) -> None:
        entity, record_id = self._known(record_id)
        if contact_id := self._ask(kind, entity, record_id, {}, gap):
            self._ask(kind, "Contact", contact_id, {}, gap)

    def _known(self, record_id: str) -> tuple[str, str]:
        """Object of a record, and the long form of its id."""
        return self._database.entity_of(record_id), salesforce_ids.long_id(record_id[:15])

    def _ask(
        self,
        kind: Kind,
        entity: str,
        record_id: str,
        given: Mapping[str, Any],
        gap: bool,
    ) -> str:
        """Check and add a change; return the id of the contact behind the record, if any."""
        edit = RecordEdit(
            kind=kind,
            entity=entity,
            record_id=record_id,
            user_id=self._user_id,
            given=given,
            gap=gap,
        )
        before = self._after.get(record_id) or self._database.record(entity, record_id)
        after = self._database.preview(edit, before)
        if entity in OBJECTS:
            self._check(after)
        self._after[record_id] = after
        self._edits.append(edit)
        return str(after.values.get(_PERSON_CONTACT) or "")

    def _check(self, record: Record) -> None:
        """Check a record of the Streaming API, also against this transaction's other changes."""
        database = self._database
        records = {one.id: one for one in database.records(record.entity)}
        records |= {one.id: one for one in self._after.values() if one.entity == record.entity}
        most = database.bus.knobs.generic_channels
        check(record, list(records.values()), database.sobject, most)


def _is_person(sobject: SObject, given: Mapping[str, Any]) -> bool:
    """True if a new record is a person account.

    An account with a last name, in an org with such.
    """
    return (
        sobject.name == "Account"
        and _PERSON_CONTACT in sobject.fields
        and bool(given.get("LastName"))
    )


def _as_contact(sobject: SObject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Values of an account that belong to its contact: `PersonEmail` becomes `Email`."""
    if sobject.name != "Account" or _PERSON_CONTACT not in sobject.fields:
        return {}
    return {
        name.removeprefix("Person"): value
        for name, value in given.items()
        if name in _PERSON_NAMES or (name.startswith("Person") and name != _PERSON_CONTACT)
    }
