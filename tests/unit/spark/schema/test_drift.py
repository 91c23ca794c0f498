"""Report of the changes of columns."""

from __future__ import annotations

from functools import partial
from typing import Any

from airflow_provider_sfevents.spark.schema.drift import Drift, drift_report
from airflow_provider_sfevents.spark.schema.event_columns import SchemaPlan, plan_batch
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded
from tests.unit.spark.avro.shapes import schema_text

schema = partial(schema_text, "A__e")
OLD = {"Name": "string", "Count__c": "long", "Gone__c": "double"}


def place(**members: str) -> dict[str, Any]:
    fields = [{"name": name, "type": kind} for name, kind in members.items()]
    return {"type": "record", "name": "Place", "fields": fields}


def table(**fields: Any) -> Recorded:
    return plan_batch({"old": schema(**fields)}, dict).evolutions["A__e"].after


def later(before: Recorded, on_type_change: Any = "new_column", **schemas: str) -> SchemaPlan:
    return plan_batch(
        schemas,
        lambda: dict.fromkeys(schemas, 1),
        recorded=lambda _: before,
        on_type_change=on_type_change,
    )


def test_a_usual_batch_has_nothing_to_report() -> None:
    """Known schemas, and a new one with another order of fields, are not reported."""
    before = table(**OLD)
    turned = schema(**dict(reversed(OLD.items())))

    assert drift_report(later(before, old=schema(**OLD)), set()) == ()
    assert drift_report(later(before, new=turned), {"new"}) == ()


def test_a_new_table_is_one_line() -> None:
    """A new table is one line, without its columns."""
    plan = later(Recorded(), a=schema(X="int"), b=schema(X="int", Y="int"))

    assert [change.text() for change in drift_report(plan, {"a", "b"})] == [
        "A__e: a new table (schema a, b)."
    ]


def test_what_a_new_schema_changes_is_named_field_by_field() -> None:
    """Fields that are added, changed, widened or absent are reported by name."""
    before = table(**OLD, Place__c=place(City="string"))
    new = schema(
        Name="double",
        Count__c="int",
        Place__c=place(City="string", Code="string"),
        New__c="boolean",
    )

    assert [change.text() for change in drift_report(later(before, new=new), {"new"})] == [
        "A__e: Place__c.Code (string) is new (schema new).",
        "A__e: a field changed in kind: its values go to the new column Name__double (double), "
        "and Name (string) is null for them (schema new).",
        "A__e: New__c (boolean) is new (schema new).",
        "A__e: values of type int go to Count__c (bigint) (schema new).",
        "A__e: Gone__c (double) has no field any more and is null (schema new).",
    ]


def test_what_a_schema_lacks_or_widens_is_said_when_it_is_new_and_not_with_every_batch() -> None:
    """Fields that a schema lacks or widens are reported with its first batch only."""
    before = table(**OLD)
    new = later(before, new=schema(Name="string", Count__c="int"))

    assert [change.what for change in drift_report(new, {"new"})] == ["widened", "absent"]
    assert drift_report(new, set()) == ()


def test_a_column_made_for_a_change_is_reported_once_and_is_not_missing_elsewhere() -> None:
    """The column of a changed field is reported once, and is not absent in other schemas."""
    changed = later(table(Name="string"), new=schema(Name="double"))
    after = changed.evolutions["A__e"].after

    assert [change.what for change in drift_report(changed, {"new"})] == ["changed"]
    assert drift_report(later(after, new=schema(Name="double")), {"new"}) == ()
    assert drift_report(later(after, old=schema(Name="string")), {"old"}) == ()


def test_quarantined_schemas_are_named_with_every_batch() -> None:
    """Schemas whose events go to quarantine are reported with every batch."""
    plan = later(
        table(Name="string"),
        "quarantine",
        bad=schema(Name="double"),
        worse=schema(X="int", x="int"),
    )

    assert [change.text() for change in drift_report(plan, set())] == [
        "A__e: events go to quarantine: schema bad: field Name is double, but in the table it is "
        "string.",
        "A__e: events go to quarantine: schema worse: fields X and x differ only in case.",
    ]


def test_as_plain_values_it_has_what_is_there() -> None:
    """The values for a receipt leave out empty ones."""
    change = Drift(event_type="A__e", what="added", column="X", type="int", schemas=("s",))

    assert change.to_dict() == {
        "event_type": "A__e",
        "what": "added",
        "column": "X",
        "type": "int",
        "schemas": ("s",),
    }
