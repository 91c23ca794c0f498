"""PushTopics: checks of their records, and the events of record changes. No I/O, no clock.

Rules, from the Streaming API Developer Guide, "PushTopic Queries" and "PushTopic Notifications",
and the object reference, "PushTopic":
1. The query selects Id and reads one object.
2. A creation or undeletion makes an event if the record matches the query's conditions.
3. An update does if the record matches afterwards and a watched field changed: NotifyForFields
   watches the fields of the SELECT clause, of the WHERE clause, of both, or all fields.
4. A deletion does if the record matched; its message holds the Id alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.bus.streaming_events import push_event
from airflow_provider_sfevents.emulator.bus.topic import BusTopic
from airflow_provider_sfevents.emulator.org.queries import soql
from airflow_provider_sfevents.emulator.org.queries.record_selection import QueryResult, select
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError
from airflow_provider_sfevents.emulator.org.records import record_views

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from airflow_provider_sfevents.emulator.bus.topic import EncodedEvent
    from airflow_provider_sfevents.emulator.org.objects.object_definitions import SObject
    from airflow_provider_sfevents.emulator.org.records.record_edits import ChangeDraft, Record

    FindObject = Callable[[str], SObject]

PUSH_TOPIC = "PushTopic"
DEFAULTS = {
    "IsActive": True,
    "NotifyForFields": "Referenced",
    "NotifyForOperationCreate": True,
    "NotifyForOperationUpdate": True,
    "NotifyForOperationDelete": True,
    "NotifyForOperationUndelete": True,
}
"""Values of a new record (object reference, "Defaults to true")."""
_WATCHED = ("All", "Referenced", "Select", "Where")
_OPERATIONS = {
    "CREATE": ("created", "NotifyForOperationCreate"),
    "UPDATE": ("updated", "NotifyForOperationUpdate"),
    "DELETE": ("deleted", "NotifyForOperationDelete"),
    "UNDELETE": ("undeleted", "NotifyForOperationUndelete"),
}
_MOST_CHARACTERS = {"Name": 25, "Query": 1_300, "Description": 400}
_AFTER_VERSION = 20.0
# Every update changes these, so that alone is no change of a field.
_STAMPED = ("LastModifiedDate", "LastModifiedById")


def check(record: Record, others: Sequence[Record], find: FindObject) -> None:
    """Check the record of a PushTopic.

    The limits are documented; the codes of the refusals are not known for live orgs.

    :param others: the org's other PushTopics.
    :param find: returns an object by its name.
    :raises RecordRefusedError: a value is missing, too long or not allowed, the name is taken, or
        the query cannot be used.
    """
    name = str(record.get("Name"))
    for field, most in _MOST_CHARACTERS.items():
        if len(record.get(field) or "") > most:
            raise RecordRefusedError(
                "STRING_TOO_LONG", f"{field}: data value too large (max length={most})", (field,)
            )
    if any(one.get("Name") == name and one.deleted_at is None for one in others):
        raise RecordRefusedError("DUPLICATE_VALUE", f"a PushTopic is named {name}", ("Name",))
    if record.get("ApiVersion") <= _AFTER_VERSION:
        raise RecordRefusedError(
            "FIELD_INTEGRITY_EXCEPTION", "ApiVersion must be above 20.0", ("ApiVersion",)
        )
    if record.get("NotifyForFields") not in _WATCHED:
        raise RecordRefusedError(
            "INVALID_OR_NULL_FOR_RESTRICTED_PICKLIST",
            f"NotifyForFields is one of {', '.join(_WATCHED)}",
            ("NotifyForFields",),
        )
    _check_query(str(record.get("Query")), find)


def topic(record: Record) -> BusTopic:
    """Topic of a PushTopic."""
    query = soql.parse(str(record.get("Query")))
    return BusTopic(
        name=f"/topic/{record.get('Name')}",
        kind="push",
        record=query.entity,
        streaming_only=True,
        fields=query.fields,
    )


def events(
    records: Sequence[Record], drafts: Sequence[ChangeDraft], find: FindObject, at: datetime
) -> list[tuple[str, EncodedEvent]]:
    """Events of record changes, each with its topic, in the order of the changes.

    :param records: the org's PushTopics.
    """
    active = [
        (one, soql.parse(str(one.get("Query"))))
        for one in records
        if one.deleted_at is None and one.get("IsActive")
    ]
    return [
        (f"/topic/{record.get('Name')}", made)
        for draft in drafts
        for record, query in active
        if query.entity.lower() == draft.entity.lower()
        and (made := _event(record, query, draft, find(draft.entity), at))
    ]


def _event(
    record: Record, query: soql.Query, draft: ChangeDraft, sobject: SObject, at: datetime
) -> EncodedEvent | None:
    change, asked = _OPERATIONS[draft.change_type.removeprefix("GAP_")]
    if not record.get(asked):
        return None
    try:
        found = select(query, sobject, (draft.record,), deleted=True)
    except RecordRefusedError:
        return None  # a field of the query has been removed since
    if not found.records:
        return None
    if change == "updated" and not _is_watched(record, query, draft, found):
        return None
    compared = {one.name: _value(draft.record, one, sobject) for one in found.columns}
    shown = {"Id": draft.record_id} if change == "deleted" else compared
    return push_event(change, shown, compared, at)


def _is_watched(record: Record, query: soql.Query, draft: ChangeDraft, found: QueryResult) -> bool:
    """True if an update changed a field that the PushTopic watches."""
    before, sobject = draft.before, found.sobject
    if before is None:
        return True
    which = record.get("NotifyForFields")
    columns: list[record_views.Column] = []
    if which == "All":
        columns += [one for name, one in sobject.fields.items() if name not in _STAMPED]
    if which in {"Referenced", "Select"}:
        columns += found.columns
    if which in {"Referenced", "Where"} and query.where:
        columns += [sobject.find(name.rpartition(".")[2]) for name in _fields(query.where)]
    ignored = () if which != "All" else ("SystemModstamp",)
    return any(
        record_views.as_json(before, one, sobject)
        != record_views.as_json(draft.record, one, sobject)
        for one in columns
        if one.name not in ignored
    )


def _value(record: Record, column: record_views.Column, sobject: SObject) -> Any:
    """Value of a message; times end with Z."""
    value = record_views.as_json(record, column, sobject)
    return (
        value.replace("+0000", "Z")
        if record_views.kind_of(column) == "DateTime" and value
        else value
    )


def _fields(condition: soql.Condition) -> list[str]:
    """Names of fields in a condition."""
    if isinstance(condition, soql.SoqlComparison):
        return [condition.field]
    return [name for part in condition.parts for name in _fields(part)]


def _check_query(text: str, find: FindObject) -> None:
    query = soql.parse(text)
    if query.every or query.count or query.order or query.limit is not None or query.offset:
        raise _refused("the query of a PushTopic has only SELECT fields, FROM and WHERE")
    if "id" not in {name.lower() for name in query.fields}:
        raise _refused("the query of a PushTopic selects Id")
    try:
        sobject = find(query.entity)
    except RecordRefusedError as error:
        raise RecordRefusedError(
            "INVALID_TYPE", f"sObject type '{query.entity}' is not supported.", ("Query",)
        ) from error
    select(query, sobject, (), deleted=True)


def _refused(why: str) -> RecordRefusedError:
    return RecordRefusedError("INVALID_FIELD", why, ("Query",))
