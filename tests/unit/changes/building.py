"""Events, records and layouts of made-up changes, by what a test is about."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.changes.event import Change
from airflow_provider_sfevents.spark.changes.fields import Layout
from airflow_provider_sfevents.spark.changes.order import EventOrder
from airflow_provider_sfevents.spark.changes.record import RecordState
from airflow_provider_sfevents.spark.changes.resync_entries import Reason, ResyncEntry, cause
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType

if TYPE_CHECKING:
    from collections.abc import Mapping

A = "001000000000001AAA"
B = "001000000000002AAA"
TEXT = FieldType(kind="string")
NAME = FieldType(
    kind="struct",
    members=(("FirstName", TEXT), ("LastName", TEXT), ("Name", TEXT)),
    text_member="Name",
)
ADDRESS = FieldType(kind="struct", members=(("Street", TEXT), ("City", TEXT)))
LAYOUT = Layout(
    columns=tuple(
        Column(name=name, field=name, type=kind)
        for name, kind in {
            "Name": NAME,
            "Address": ADDRESS,
            "Industry": TEXT,
            "Phone": TEXT,
            "Description": TEXT,
        }.items()
    )
)


def second(number: float) -> datetime:
    """The moment that is so many seconds after the tests' beginning."""
    return datetime(2026, 11, 1, tzinfo=UTC) + timedelta(seconds=number)


def order(number: int) -> EventOrder:
    return EventOrder(1, 1, number)


def change(number: int, change_type: str = "UPDATE", *ids: str, **given: Any) -> Change:
    """Make an event of this ordinal, in a transaction of its own."""
    values = {name: given.pop(name) for name in list(given) if name[0].isupper()}
    event: dict[str, Any] = {
        "order": order(number),
        "entity": "Account",
        "change_type": change_type,
        "record_ids": ids or (A,),
        "transaction_key": f"t{number}",
        "sequence_number": 1,
        "committed_at": second(number),
        "changed": tuple(values) if change_type == "UPDATE" else (),
        "values": values,
    }
    return Change(**(event | given))


def state(
    number: int, *, deleted: bool = False, read: float | None = None, **values: Any
) -> RecordState:
    """A record whose last event is of this ordinal."""
    return RecordState(
        values=values,
        deleted=deleted,
        order=order(number),
        committed_at=second(number),
        read_at=None if read is None else second(read),
    )


def entry(number: int, reason: Reason = "gap") -> ResyncEntry:
    return cause(order(number), second(number), reason)


def there(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not null."""
    return {name: value for name, value in values.items() if value is not None}
