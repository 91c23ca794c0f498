"""Values of a newer schema in the columns of an older table."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro

from airflow_provider_sfevents.spark.avro.arrow_columns import arrow_type, build_columns
from airflow_provider_sfevents.spark.avro.reference_decoder import Reference
from airflow_provider_sfevents.spark.schema.decimals import read_decimals
from airflow_provider_sfevents.spark.schema.event_columns import SchemaPlan, plan_batch

PERSON = {
    "type": "record",
    "name": "Switchable_PersonName",
    "fields": [{"name": "LastName", "type": ["null", "string"]}],
}


def place(*members: str) -> dict[str, Any]:
    fields = [{"name": name, "type": ["null", "string"]} for name in members]
    return {"type": "record", "name": "Place", "fields": fields}


def schema(**fields: Any) -> dict[str, Any]:
    members = [
        {"name": name, "type": ["null", *(avro if isinstance(avro, list) else [avro])]}
        for name, avro in fields.items()
    ]
    return {"type": "record", "name": "A__e", "fields": members}


def landed(plan: SchemaPlan, avro: dict[str, Any], **record: Any) -> dict[str, Any]:
    """Row of an event; the first schema of its type is `avro`."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(avro), record)
    (kind,) = plan.types
    (schema_id,) = (name for name, text in kind.schemas.items() if text == json.dumps(avro))
    columns = kind.columns_of(schema_id)
    records, _, reasons = Reference(json.dumps(avro), ()).decode_all([stream.getvalue()])
    arrays, _, misfits = build_columns(records, columns)
    assert (reasons, misfits) == ({}, {})
    assert [array.type for array in arrays] == [arrow_type(column.type) for column in kind.columns]
    return {column.name: array[0].as_py() for column, array in zip(columns, arrays, strict=True)}


def test_values_land_in_the_tables_types_and_columns_without_a_field_are_null() -> None:
    """Values are converted to the table's types; columns without a field are null."""
    old = schema(
        Count="long",
        Rate="double",
        Money="double",
        Name=["string", PERSON],
        Place=place("City", "Code"),
        Gone="string",
        Size="string",
    )
    new = schema(
        Size="double",
        Place=place("Zip", "City"),
        Name="string",
        Money="int",
        Rate="int",
        Count="int",
    )
    decimals = read_decimals({"Money": "decimal(18,2)"})
    before = plan_batch({"old": json.dumps(old)}, dict, decimals=decimals).evolutions["A__e"].after
    plan = plan_batch({"new": json.dumps(new)}, dict, recorded=lambda _: before, decimals=decimals)

    row = landed(
        plan,
        new,
        Count=1,
        Rate=2,
        Money=3,
        Name="Acme",
        Place={"Zip": "1", "City": "Ulm"},
        Size=4.5,
    )

    assert row == {
        "Count": 1,
        "Rate": 2.0,
        "Money": Decimal("3.00"),
        "Name": {"LastName": None, "Name": "Acme"},
        "Place": {"City": "Ulm", "Code": None, "Zip": "1"},
        "Gone": None,
        "Size": None,
        "Size__double": 4.5,
    }
    assert isinstance(row["Rate"], float)
