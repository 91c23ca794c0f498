"""An event's payload and its schema, to a record or a reason."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark.avro.reference_decoder import Reference
from tests.unit.spark.conftest import encode

if TYPE_CHECKING:
    from collections.abc import Callable


def decoded(schema: str, payload: bytes) -> dict[str, Any]:
    """Record of a payload that decodes."""
    [record], _, _ = Reference(schema, ()).decode_all([payload])
    return record


def reason(schema: str, payload: bytes) -> str:
    """Reason of a payload that does not decode."""
    _, _, reasons = Reference(schema, ()).decode_all([payload])
    return reasons[0]


def test_a_platform_event_decodes_to_its_fields(
    order_schema: str, order: Callable[..., bytes]
) -> None:
    """Every field of the schema is in the record, absent ones as None."""
    record = decoded(order_schema, order(Number__c="N1"))

    assert record == {
        "CreatedDate": 1_793_491_200_000,
        "Number__c": "N1",
        "Due__c": None,
        "At__c": None,
    }


def test_names_stand_in_place_of_bitmaps(
    account_schema: str, account: Callable[..., bytes]
) -> None:
    """The three bitmaps of a change event's header become names of fields and members."""
    payload = account(
        changedFields=["0x04", "1-0x02"], nulledFields=["1-0x01"], diffFields=["0x02"]
    )

    header = decoded(account_schema, payload)["ChangeEventHeader"]

    assert header["changedFields"] == ["LastModifiedDate", "Name.LastName"]
    assert header["nulledFields"] == ["Name.FirstName"]
    assert header["diffFields"] == ["Name"]


@pytest.mark.parametrize(
    "name", ["Acme", {"FirstName": "Ada", "LastName": None}, None], ids=["text", "record", "null"]
)
def test_a_name_is_text_or_a_record(
    account_schema: str, account: Callable[..., bytes], name: Any
) -> None:
    """Both branches of the union decode to what was written."""
    assert decoded(account_schema, account(name=name))["Name"] == name


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda payload: payload[:-1], "ends before"),
        (lambda payload: payload + b"\x00", "1 of 10 bytes are left over"),
        (lambda _: b"", "ends before"),
        (lambda payload: payload[:6] + b"\x0c" + payload[7:], "union branch or enum symbol"),
        (lambda payload: payload[:6] + b"\x02\x02\xff\x00\x00", "not UTF-8"),
        (lambda payload: payload[:6] + b"\x02\x01", "ends before"),
    ],
    ids=["truncated", "left over", "empty", "unknown branch", "bad text", "negative length"],
)
def test_a_corrupt_payload_has_a_reason(
    order_schema: str, order: Callable[..., bytes], spoil: Callable[[bytes], bytes], said: str
) -> None:
    """A damaged payload is undecodable, with a reason for the damage."""
    assert said in reason(order_schema, spoil(order()))


def test_an_enum_symbol_beyond_the_schema_is_undecodable(
    account_schema: str, account: Callable[..., bytes]
) -> None:
    """A change type that the schema does not list is undecodable."""
    payload = account()
    at = payload.index(b"001A") + 5  # after the record ids: the text and the end of its array

    assert "enum symbol" in reason(account_schema, payload[:at] + b"\x14" + payload[at + 1 :])


@pytest.mark.parametrize(
    ("kind", "payload"),
    [
        (["null", "string"], b"\x01\x02a"),
        ({"type": "enum", "name": "Size", "symbols": ["S", "L"]}, b"\x01"),
        ("boolean", b"\x02"),
        ("int", b"\x80\x80\x80\x80\x10"),
        ("long", b"\xff" * 10 + b"\x01"),
    ],
    ids=["branch -1", "symbol -1", "truth value 2", "int of 33 bits", "long of 11 bytes"],
)
def test_what_fastavro_reads_though_it_is_no_avro_is_undecodable(kind: Any, payload: bytes) -> None:
    """Invalid Avro that fastavro reads is undecodable, and the other payloads decode."""
    fields = [{"name": "A", "type": kind}, {"name": "B", "type": "long"}]
    schema = {"type": "record", "name": "X__e", "fields": fields}
    whole = encode(
        schema, {"A": {"boolean": True, "int": 1, "long": 1}.get(str(kind), "S"), "B": 7}
    )
    decoder = Reference(json.dumps(schema), ())

    records, good, reasons = decoder.decode_all([whole, payload + b"\x0e", whole])

    assert [record["B"] for record in records] == [7, 7]
    assert (good, [*reasons]) == ([0, 2], [1])
    assert "not Avro of the event's schema" in reasons[1]


@pytest.mark.parametrize(
    "front",
    [b"\x00", b"\x01"],
    ids=["a payload that is Avro", "one that only fastavro reads"],
)
def test_a_list_of_a_million_items_without_bytes_is_undecodable(front: bytes) -> None:
    """A list of a million items without bytes is undecodable; other payloads decode."""
    fields = [
        {"name": "A", "type": ["null", "string"]},
        {"name": "B", "type": {"type": "array", "items": "null"}},
    ]
    decoder = Reference(json.dumps({"type": "record", "name": "X__e", "fields": fields}), ())
    few, million = b"\x00\x06\x00", front + b"\x80\x80\x80\x01\x00"

    records, good, reasons = decoder.decode_all([few, million, few[:-1], few])

    assert records == [{"A": None, "B": [None, None, None]}] * 2
    assert good == [0, 3]
    assert [*reasons] == [1, 2]
    assert "more than 1000 items that take no bytes" in reasons[1]


def test_types_of_one_name_in_two_namespaces_are_two() -> None:
    """Types of the same name in two namespaces are told apart."""

    def named(namespace: str, kind: str) -> Any:
        fields = [{"name": "V", "type": kind}]
        return {"type": "record", "name": "Inner", "namespace": namespace, "fields": fields}

    fields = [
        {"name": "A", "type": named("one", "string")},
        {"name": "B", "type": named("two", "double")},
        {"name": "C", "type": "one.Inner"},
    ]
    schema = {"type": "record", "name": "X__e", "fields": fields}
    record = {"A": {"V": "a"}, "B": {"V": 1.5}, "C": {"V": "c"}}

    assert decoded(json.dumps(schema), encode(schema, record)) == record


@pytest.mark.parametrize("bitmap", ["0x08", "2-0x01", "1-0x04", "Name"])
def test_a_bit_beyond_the_schema_is_undecodable(
    account_schema: str, account: Callable[..., bytes], bitmap: str
) -> None:
    """A bitmap with a bit that the schema does not have makes the event undecodable."""
    assert "changedFields: " in reason(account_schema, account(changedFields=[bitmap]))


def test_reasons_are_short_whatever_the_payload() -> None:
    """A reason has a bounded length, so that it never repeats a payload."""
    schema = {
        "type": "record",
        "name": "X__e",
        "fields": [{"name": "A", "type": {"type": "array", "items": "string"}}],
    }

    assert len(reason(json.dumps(schema), b"\x02" + b"\xff" * 100_000)) <= 500


def test_numbers_stay_numbers_whatever_logical_type_a_schema_claims() -> None:
    """Logical types are ignored: values stay numbers, and types come from `doc`."""
    schema = {
        "type": "record",
        "name": "X__e",
        "fields": [{"name": "A", "type": {"type": "long", "logicalType": "timestamp-millis"}}],
    }

    assert decoded(json.dumps(schema), b"\x02") == {"A": 1}


@pytest.mark.parametrize(
    "text", ['{"type": "record", "name": "X", "fields": [{"name": "A", "type": "wrong"}]}', "{"]
)
def test_what_is_no_schema_makes_no_decoder(text: str) -> None:
    """An invalid schema is an error of the decoder, not of its events."""
    with pytest.raises(ValueError, match=r"."):
        Reference(text, ())


def test_an_event_has_the_same_reason_each_time() -> None:
    """An undecodable event has the same reason each time, without an address in memory."""
    schema = {"type": "record", "name": "X__e", "fields": [{"name": "A", "type": "double"}]}
    decoder = Reference(json.dumps(schema), ())

    (said,) = {decoder.decode_all([b"\x01"])[2][0] for _ in range(3)}

    assert " at 0x" not in said


def test_a_field_that_is_named_like_the_header_but_is_none() -> None:
    """A plain field with the name of the header decodes as any other field."""
    schema = {
        "type": "record",
        "name": "X__e",
        "fields": [{"name": "ChangeEventHeader", "type": "string"}],
    }

    assert decoded(json.dumps(schema), b"\x02a") == {"ChangeEventHeader": "a"}
