from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.source.columns import decoding_plan, fixed_columns
from tests.unit.spark.avro.shapes import schema_text

KINDS = ("int", "long", "double", "string", "boolean")


def once_each(_place: int) -> dict[str, int]:
    return {}


some_fields = st.dictionaries(st.sampled_from("abc"), st.sampled_from(KINDS), min_size=1)
histories = st.lists(st.lists(some_fields, min_size=1, max_size=3), min_size=1, max_size=5)


@given(histories, st.data())
def test_a_schema_that_was_there_brings_nothing_new(
    history: list[list[dict[str, str]]], data: st.DataObject
) -> None:
    """Any schemas of the batches that decided the columns are decoded to these columns alone."""
    batches = [
        {f"s{batch}-{number}": schema_text("A", **fields) for number, fields in enumerate(schemas)}
        for batch, schemas in enumerate(history)
    ]
    fixed = fixed_columns("A", batches, once_each, rescues=False)
    known = {name: text for batch in batches for name, text in batch.items()}
    chosen = data.draw(st.lists(st.sampled_from(sorted(known)), min_size=1, unique=True))

    plan = decoding_plan(fixed, {name: known[name] for name in chosen}, {})

    assert plan.kind is not None
    assert plan.kind.columns == fixed.own
    assert plan.rescued == {}
    for name in chosen:
        read = [one.field for one in plan.kind.columns_of(name) if one.field]
        assert sorted(read) == [field["name"] for field in sorted_fields(known[name])]


def sorted_fields(text: str) -> list[dict[str, str]]:
    return sorted(json.loads(text)["fields"], key=lambda field: field["name"])


def test_columns_grow_in_the_order_of_the_batches() -> None:
    """A field that changes its kind gets a second column, after those of earlier batches."""
    first, second = (
        schema_text("A", x="string"),
        schema_text("A", y="int", x="double"),
    )
    fixed = fixed_columns("A", [{"1": first}, {"1": first, "2": second}], once_each, rescues=True)
    assert [column.name for column in fixed.own] == ["x", "y", "x__double"]
    assert fixed.names[-5:] == (
        "x__double",
        "event_date",
        "quarantine_reason",
        "raw_payload",
        "_rescued",
    )
    assert "`x` string, `y` int, `x__double` double, `event_date` date" in fixed.sql()


def test_other_types_are_left_out() -> None:
    """Schemas of other event types are not read; schemas that do not exist are, with the reason."""
    schemas = {"1": schema_text("A", x="int"), "2": schema_text("B", x="string")}
    fixed = fixed_columns("A", [schemas], once_each, rescues=False)
    plan = decoding_plan(fixed, schemas, {"3": "gone"})
    assert (plan.names, plan.refused) == ({"1": "A", "3": ""}, {"3": "gone"})


def test_later_fields_end_the_query_or_are_rescued() -> None:
    """A later field is an error that names its column, or a column to rescue."""
    now, later = schema_text("A", x="int"), schema_text("A", x="int", y="string")
    strict = fixed_columns("A", [{"1": now}], once_each, rescues=False)
    with pytest.raises(ConfigurationError, match="restart to take column y"):
        decoding_plan(strict, {"2": later}, {})
    rescuing = fixed_columns("A", [{"1": now}], once_each, rescues=True)
    plan = decoding_plan(rescuing, {"1": now, "2": later}, {})
    assert plan.rescued == {"_rescued.y": "y"}
    assert plan.kind is not None
    assert [one.field for one in plan.kind.columns_of("1")] == ["x", ""]
    assert [one.field for one in plan.kind.columns_of("2")] == ["x", "y"]
