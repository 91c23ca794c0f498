"""Every type of Salesforce: its column, a value, and its row in docs/reference/types.md."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import fastavro
import pytest

from airflow_provider_sfevents.spark.avro.arrow_columns import build_columns
from airflow_provider_sfevents.spark.avro.reference_decoder import Reference
from airflow_provider_sfevents.spark.schema.decimals import read_decimals
from airflow_provider_sfevents.spark.schema.event_columns import plan_batch

DOCS = Path(__file__).parents[4] / "docs" / "reference" / "types.md"
HEADING = "## Salesforce types"


class Row(NamedTuple):
    """One type: its name in the docs, its part of `doc`, its Avro type, an example."""

    called: str
    doc: str
    avro: Any
    sent: Any
    lands: Any
    column: str
    decimals: dict[str, str] = {}  # noqa: RUF012 - a tuple's default cannot be changed


def record(name: str, **members: str) -> dict[str, Any]:
    fields = [{"name": member, "type": ["null", avro]} for member, avro in members.items()]
    return {"type": "record", "name": name, "fields": fields}


PERSON = {"Salutation": "string", "FirstName": "string", "LastName": "string"}
PERSON_SQL = "struct<`Salutation`: string, `FirstName`: string, `LastName`: string>"
UNION_SQL = "struct<`Salutation`: string, `FirstName`: string, `LastName`: string, `Name`: string>"
ADDRESS = {
    **dict.fromkeys(("Street", "City", "State", "PostalCode", "Country"), "string"),
    "Latitude": "double",
    "Longitude": "double",
    "GeocodeAccuracy": "string",
}
ADDRESS_SQL = (
    "struct<`Street`: string, `City`: string, `State`: string, `PostalCode`: string, "
    "`Country`: string, `Latitude`: double, "
    "`Longitude`: double, `GeocodeAccuracy`: string>"
)
ADA = {"Salutation": "Ms.", "FirstName": "Ada", "LastName": "Byron"}
NO_PERSON = dict.fromkeys(PERSON)
HOME = {**dict.fromkeys(ADDRESS), "City": "Ulm", "Latitude": 48.4}
LATE_INSTANT = 1_793_577_599_999
LATE_CLOCK = 86_399_999
STRINGS = {"type": "array", "items": "string"}
HEADER: dict[str, Any] = {
    "entityName": "string",
    "recordIds": STRINGS,
    "changeType": {
        "type": "enum",
        "name": "ChangeType",
        "namespace": "",
        "symbols": ["CREATE", "UPDATE", "GAP_OVERFLOW", "SNAPSHOT"],
    },
    "changeOrigin": "string",
    "transactionKey": "string",
    "sequenceNumber": "int",
    "commitTimestamp": "long",
    "commitNumber": "long",
    "commitUser": "string",
    "nulledFields": STRINGS,
    "diffFields": STRINGS,
    "changedFields": STRINGS,
}
CHANGE = {
    **dict.fromkeys(HEADER, ""),
    "recordIds": ["001A", "001B"],
    "changeType": "SNAPSHOT",
    "sequenceNumber": 1,
    "commitTimestamp": LATE_INSTANT,
    "commitNumber": 1_756_817_292_878_872_579,
    **{bitmaps: [] for bitmaps in ("nulledFields", "diffFields", "changedFields")},
}


def text(called: str, doc: str, value: str) -> Row:
    return Row(called, doc, "string", value, value, "string")


ROWS = [
    text("text, text area", "Text", "Ünïcode 🛫"),
    text("long text area", "StringPlusClob", "line\r\nline"),
    text("rich text area", "HtmlStringPlusClob", "<p>hello</p>"),
    text("content", "Content", "body"),
    text("email", "Email", "ada@example.com"),
    text("URL", "Url", "https://example.com"),
    text("phone", "Phone", "+49 731 0"),
    text("picklist", "DynamicEnum", "Hot"),
    text("picklist with fixed values", "StaticEnum", "Address"),
    text("multi-select picklist", "MultiEnum", "red;green"),
    text("encrypted text", "EncryptedText", "****1234"),
    text("id, lookup, master-detail", "EntityId", "001Dp00000H8YVWIA3"),
    text("external id", "ExternalId", "X-1"),
    Row("checkbox", "Boolean", "boolean", False, False, "boolean"),
    Row("whole number of a standard field", "Integer", "int", -(2**31), -(2**31), "int"),
    Row("number", "Double", "double", 0.1, 0.1, "double"),
    Row("currency", "Currency", "double", 1e15, 1e15, "double"),
    Row("percent", "Percent", "double", -12.5, -12.5, "double"),
    Row(
        "number, currency, percent, with a decimal configured",
        "Currency",
        "double",
        1.005,
        Decimal("1.00"),  # half to even
        "decimal(18,2)",
        {"Name": "decimal(18,2)"},
    ),
    Row(
        "date/time",
        "DateTime",
        "long",
        LATE_INSTANT,
        datetime(2026, 11, 1, 23, 59, 59, 999000, tzinfo=UTC),
        "timestamp",
    ),
    Row("date", "DateOnly", "long", 1_793_491_200_000, date(2026, 11, 1), "date"),
    Row("birthday", "Birthday", "long", -86_400_000, date(1969, 12, 31), "date"),
    Row("time", "TimeOnly", "long", LATE_CLOCK, "23:59:59.999", "string"),
    Row("address", "Address", record("Address", **ADDRESS), HOME, HOME, ADDRESS_SQL),
    Row(
        "geolocation",
        "Location",
        record("Location", Latitude="double", Longitude="double"),
        {"Latitude": 48.4, "Longitude": 9.98},
        {"Latitude": 48.4, "Longitude": 9.98},
        "struct<`Latitude`: double, `Longitude`: double>",
    ),
    Row("name of a person", "PersonName", record("PersonName", **PERSON), ADA, ADA, PERSON_SQL),
    Row(
        "name of a business or a person: a person",
        "Switchable_PersonName",
        ["string", record("Switchable_PersonName", **PERSON)],
        ADA,
        {**ADA, "Name": None},
        UNION_SQL,
    ),
    Row(
        "name of a business or a person: a business",
        "Switchable_PersonName",
        ["string", record("Switchable_PersonName", **PERSON)],
        "Burlington",
        {**NO_PERSON, "Name": "Burlington"},
        UNION_SQL,
    ),
    Row(
        "change event header",
        "ComplexValueType",
        {
            "type": "record",
            "name": "ChangeEventHeader",
            "fields": [{"name": name, "type": avro} for name, avro in HEADER.items()],
        },
        CHANGE,
        {**CHANGE, "commitTimestamp": datetime(2026, 11, 1, 23, 59, 59, 999000, tzinfo=UTC)},
        "struct<`entityName`: string, `recordIds`: array<string>, `changeType`: string, "
        "`changeOrigin`: string, `transactionKey`: string, `sequenceNumber`: int, "
        "`commitTimestamp`: timestamp, `commitNumber`: bigint, `commitUser`: string, "
        "`nulledFields`: array<string>, `diffFields`: array<string>, "
        "`changedFields`: array<string>>",
    ),
]

# What the service is known to write into the type part of `doc`.
TYPES_IN_DOC = {
    *("Text", "StringPlusClob", "HtmlStringPlusClob", "Content", "Email", "Url", "Phone"),
    *("DynamicEnum", "StaticEnum", "MultiEnum", "Boolean", "Integer", "Double", "Currency"),
    *("Percent", "DateTime", "DateOnly", "TimeOnly", "Birthday", "Address", "Location"),
    *("PersonName", "Switchable_PersonName", "EncryptedText", "EntityId", "ExternalId"),
    "ComplexValueType",
}


def schema(row: Row) -> dict[str, Any]:
    """An event of one field, which may be null."""
    branches = row.avro if isinstance(row.avro, list) else [row.avro]
    field = {
        "name": "Name",
        "type": ["null", *branches],
        "doc": f"Data:{row.doc}:00NgL00000v0001",
        "default": None,
    }
    return {
        "type": "record",
        "name": "X__e",
        "namespace": "com.sforce.eventbus",
        "fields": [field],
    }


@pytest.mark.parametrize("row", ROWS, ids=[row.called for row in ROWS])
def test_a_value_of_each_type_lands_as_a_person_would_write_it(row: Row) -> None:
    """A value of each type is in its column as the docs show it, and null as null."""
    avro = schema(row)
    kind = plan_batch({"s": json.dumps(avro)}, dict, decimals=read_decimals(row.decimals)).types[0]
    payloads = []
    for value in (row.sent, None):
        stream = io.BytesIO()
        fastavro.schemaless_writer(stream, fastavro.parse_schema(avro), {"Name": value})
        payloads.append(stream.getvalue())

    records, _, reasons = Reference(json.dumps(avro), ()).decode_all(payloads)
    arrays, _, misfits = build_columns(records, kind.columns_of("s"))

    assert not reasons
    assert not misfits
    assert [column.type.sql() for column in kind.columns] == [row.column]
    assert arrays[0].to_pylist() == [row.lands, None]


@pytest.mark.parametrize("role", ["Data", "ForeignKey", "ExternalForeignKey", "CreatedDate"])
def test_the_role_of_a_field_makes_no_difference(role: str) -> None:
    """Only the type in a field's `doc` counts, not its role or id."""
    avro = {
        "type": "record",
        "name": "X__e",
        "fields": [{"name": "Name", "type": ["null", "long"], "doc": f"{role}:DateTime"}],
    }

    kind = plan_batch({"s": json.dumps(avro)}, dict).types[0]

    assert [column.type.sql() for column in kind.columns] == ["timestamp"]


def test_every_type_the_service_is_known_to_name_has_a_row() -> None:
    """Every known type of the service has a row."""
    assert {row.doc for row in ROWS} == TYPES_IN_DOC


def test_the_docs_say_what_the_code_does() -> None:
    """Each row of docs/reference/types.md is what the code does."""
    assert documented() == [
        (row.called, f"`{row.doc}`", avro_in_words(row.avro), in_docs(row.column), shown(row.lands))
        for row in ROWS
    ]


def documented() -> list[tuple[str, ...]]:
    section = DOCS.read_text().partition(HEADING)[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [tuple(cell.strip() for cell in line.strip("|").split(" | ")) for line in lines[1:]]


def avro_in_words(avro: Any) -> str:
    if isinstance(avro, list):
        return " or ".join(avro_in_words(branch) for branch in avro)
    return "record" if isinstance(avro, dict) else str(avro)


def in_docs(sql: str) -> str:
    """Spelling of a column's type in the docs: without backticks around members."""
    return "`" + sql.replace("`", "") + "`"


def shown(value: Any) -> str:
    """Spelling of a value in the docs; a struct shows the members that have one."""
    if isinstance(value, dict):
        return "; ".join(f"`{name}` {shown(of)}" for name, of in value.items() if of)
    if isinstance(value, list):
        return ", ".join(map(shown, value))
    if isinstance(value, datetime):
        return f"`{value.isoformat(sep=' ', timespec='milliseconds')[:-6]}` UTC"
    return f"`{json.dumps(value, ensure_ascii=False)}`" if isinstance(value, str) else f"`{value}`"
