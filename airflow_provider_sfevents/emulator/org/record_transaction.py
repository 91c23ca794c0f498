"""Several changes as one: each is checked as it is asked for, all are carried out together.

A person account is two records: what is done to the account is done to the contact behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.org.records.record_edits import (
    Record,
    RecordEdit,
    read_given,
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
    """Changes that are not carried out yet.

    :param user_id: who makes them.
    """

    def __init__(self, database: Database, *, user_id: str = "") -> None:
        self._database = database
        self._user_id = user_id or database.user_id
        self._edits: list[RecordEdit] = []
        self._after: dict[str, Record] = {}

    def create(self, entity: str, fields: Mapping[str, Any], *, gap: bool = False) -> str:
        """Add a record; its id.

        :param fields: by name as REST has them, or a compound as a dict of its members.
        :param gap: let the change event only say that something changed.
        :raises RecordRefusedError: when it cannot be; the changes asked for before stand.
        """
        sobject = self._database.sobject(entity)
        given = read_given(sobject, fields)
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
        """Give a record's fields other values; None takes one away."""
        entity, record_id = self._known(record_id)
        sobject = self._database.sobject(entity)
        given = read_given(sobject, fields)
        contact_id = self._ask("UPDATE", entity, record_id, given, gap)
        person = _as_contact(sobject, given)
        if contact_id and person:
            self._ask("UPDATE", "Contact", contact_id, person, gap)

    def delete(self, record_id: str, *, gap: bool = False) -> None:
        """Put a record into the recycle bin."""
        self._with_contact("DELETE", record_id, gap)

    def undelete(self, record_id: str, *, gap: bool = False) -> None:
        """Take a record out of the recycle bin."""
        self._with_contact("UNDELETE", record_id, gap)

    def commit(self, how: TransactionStamp) -> list[bytes]:
        """Carry everything out; the replay ids of the events."""
        edits, self._edits = self._edits, []
        return self._database.commit(edits, how) if edits else []

    def _with_contact(self, kind: Kind, record_id: str, gap: bool) -> None:
        entity, record_id = self._known(record_id)
        if contact_id := self._ask(kind, entity, record_id, {}, gap):
            self._ask(kind, "Contact", contact_id, {}, gap)

    def _known(self, record_id: str) -> tuple[str, str]:
        """Object of a record, and its id in the long form."""
        return self._database.entity_of(record_id), salesforce_ids.long_id(record_id[:15])

    def _ask(
        self,
        kind: Kind,
        entity: str,
        record_id: str,
        given: Mapping[str, Any],
        gap: bool,
    ) -> str:
        """Note a change, when it can be made; the contact behind the record, if there is one."""
        edit = RecordEdit(
            kind=kind,
            entity=entity,
            record_id=record_id,
            user_id=self._user_id,
            given=given,
            gap=gap,
        )
        before = self._after.get(record_id) or self._database.record(entity, record_id)
        self._after[record_id] = after = self._database.preview(edit, before)
        self._edits.append(edit)
        return str(after.values.get(_PERSON_CONTACT) or "")


def _is_person(sobject: SObject, given: Mapping[str, Any]) -> bool:
    """Whether a new record is a person: an account, in an org that has such, with a last name."""
    return (
        sobject.name == "Account"
        and _PERSON_CONTACT in sobject.fields
        and bool(given.get("LastName"))
    )


def _as_contact(sobject: SObject, given: Mapping[str, Any]) -> dict[str, Any]:
    """What an account's values are to its contact: `PersonEmail` is `Email`, names are names."""
    if sobject.name != "Account" or _PERSON_CONTACT not in sobject.fields:
        return {}
    return {
        name.removeprefix("Person"): value
        for name, value in given.items()
        if name in _PERSON_NAMES or (name.startswith("Person") and name != _PERSON_CONTACT)
    }
