"""Conversion of the org's events to decoded events, and of table rows to the org's records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.changes.event import Change
from airflow_provider_sfevents.spark.changes.fields import Layout
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.spark.changes.order import EventOrder
    from tests.histories.org import Told

TEXT = FieldType(kind="string")


def struct(*members: str, text: str = "") -> FieldType:
    names = (*members, text) if text else members
    return FieldType(kind="struct", members=tuple((one, TEXT) for one in names), text_member=text)


_TYPES = {
    "Name": struct("FirstName", "LastName", text="Name"),
    "Industry": TEXT,
    "Employees": FieldType(kind="int"),
    "Rating": TEXT,
    "BillingAddress": struct("Street", "City"),
    "Description": TEXT,
}
LAYOUT = Layout(columns=tuple(Column(name=one, field=one, type=of) for one, of in _TYPES.items()))
GROWN = Layout(
    columns=(
        *LAYOUT.columns,
        Column(name="Extra__c", field="Extra__c", type=FieldType(kind="double")),
    )
)


def change(told: Told, order: EventOrder) -> Change:
    """Make the decoded event; its commit time is cut to seconds, as Salesforce cuts it."""
    says = told.says
    return Change(
        order=order,
        entity=says["entityName"],
        change_type=says["changeType"],
        record_ids=tuple(says["recordIds"]),
        transaction_key=says["transactionKey"],
        sequence_number=says["sequenceNumber"],
        committed_at=told.committed.replace(microsecond=0),
        changed=tuple(says["changedFields"]),
        nulled=tuple(says["nulledFields"]),
        diffs=tuple(says["diffFields"]),
        values={name: column_value(name, value) for name, value in says["body"].items()},
        defect="it cannot be decoded" if says["broken"] else "",
    )


def row(record: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a record of the org to the row of a snapshot."""
    return {name: column_value(name, value) for name, value in record.items()}


def record(values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a table's row to a record of the org."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            inner = {member: of for member, of in value.items() if of is not None}
            found[name] = inner[name] if list(inner) == [name] else inner
        elif value is not None:
            found[name] = value
    return found


def column_value(name: str, value: Any) -> Any:
    kind = _TYPES.get(name)
    if kind is None or kind.kind != "struct" or value is None:
        return value
    given = {kind.text_member: value} if isinstance(value, str) else value
    return {member: given.get(member) for member, _ in kind.members}


def layout_of(events: list[Told]) -> Layout:
    """Columns of a table that was fed these events."""
    grown = any(
        "Extra__c" in (*one.says["body"], *one.says["changedFields"], *one.says["nulledFields"])
        for one in events
    )
    return GROWN if grown else LAYOUT
