"""The accelerator gives the same result as the reference decoder."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark.avro.accelerated_decoder import Accelerated
from airflow_provider_sfevents.spark.avro.reference_decoder import Decoded, Reference
from airflow_provider_sfevents.spark.schema.decimals import read_decimals
from airflow_provider_sfevents.spark.schema.event_columns import plan_batch
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType
from tests.unit.spark.avro import shapes
from tests.unit.spark.conftest import encode

if TYPE_CHECKING:
    from collections.abc import Sequence

SCHEMAS = {name: json.dumps(avro) for name, avro in shapes.AVRO.items()}


def columns(name: str, **decimals: str) -> Sequence[Column]:
    plan = plan_batch(SCHEMAS, dict, decimals=read_decimals(decimals))
    kind = next(kind for kind in plan.types if name in kind.schemas)
    return kind.columns_of(name)


def told(decoded: Decoded) -> Any:
    """The whole result as values, in which NaN equals NaN."""
    return (
        [repr(array.to_pylist()) for array in decoded.arrays],
        [array.type for array in decoded.arrays],
        list(decoded.rows),
        decoded.times.to_pylist(),
        decoded.reasons,
    )


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_it_makes_of_any_payloads_what_the_reference_makes(name: str, seed: int) -> None:
    """Values, types, order, times and reasons are the reference's, also of damaged payloads."""
    chance = random.Random(f"{name} {seed}")  # noqa: S311 - not a secret
    payloads = [shapes.event(chance, number, name)[1] for number in range(400)]
    for at in range(0, 400, 4):
        payloads[at] = shapes.spoiled(chance, name, payloads[at])[1]
    decimals = {"Revenue": "decimal(12,2)", "Celsius__c": "decimal(38,3)"} if seed % 2 else {}
    reference = Reference(SCHEMAS[name], columns(name, **decimals))
    accelerated = Accelerated(SCHEMAS[name], columns(name, **decimals))

    found = accelerated(payloads)

    assert accelerated.trusted
    assert len(found.reasons) > 20
    assert told(found) == told(reference(payloads))


@pytest.mark.parametrize(
    "payloads", [[], [b""], [b"", b"\x00"]], ids=["none", "empty", "nothing that decodes"]
)
def test_chunks_with_nothing_in_them(payloads: list[bytes]) -> None:
    """A chunk without a decodable payload has no rows, and a reason for each payload."""
    found = Accelerated(SCHEMAS["account"], columns("account"))(payloads)

    assert list(found.rows) == []
    assert sorted(found.reasons) == list(range(len(payloads)))
    assert [len(array) for array in found.arrays] == [0] * len(columns("account"))


def test_an_encoding_that_is_right_but_not_the_usual_one_is_decoded() -> None:
    """A valid but unusual encoding fails the proof, and the reference decodes it."""
    avro = {
        "type": "record",
        "name": "X__e",
        "fields": [
            {"name": "N", "type": "long"},
            {"name": "L", "type": {"type": "array", "items": "string"}},
        ],
    }
    kinds = [
        Column(name="N", field="N", type=FieldType(kind="long")),
        Column(name="L", field="L", type=FieldType(kind="array", item=FieldType(kind="string"))),
    ]
    usual = encode(avro, {"N": 1, "L": ["a", "b"]})
    payloads = [usual, b"\x82\x00" + usual[1:], b"\x02\x01\x04\x02a\x02\x02b\x00", usual + b"\x00"]

    found = Accelerated(json.dumps(avro), kinds)(payloads)

    assert [array.to_pylist() for array in found.arrays] == [[1] * 3, [["a", "b"]] * 3]
    assert list(found.reasons) == [3]


def test_a_schema_that_it_cannot_decode_is_the_references() -> None:
    """A panic of the accelerator leaves the chunk to the reference."""
    avro = {"type": "record", "name": "X__e", "fields": [{"name": "B", "type": "bytes"}]}
    kinds = [Column(name="B", field="B", type=FieldType(kind="binary"))]

    found = Accelerated(json.dumps(avro), kinds)([encode(avro, {"B": b"\xff"})])

    assert found.arrays[0].to_pylist() == [b"\xff"]


def test_a_decoder_that_differs_in_the_first_rows_is_not_used() -> None:
    """After a difference in the first rows the reference decodes all rows."""
    name = "reading"
    payloads = [shapes.event(random.Random(1), 1, name)[1]]  # noqa: S311
    accelerated = Accelerated(SCHEMAS[name], columns(name), module=Liar())

    first, second = accelerated(payloads), accelerated(payloads)

    assert not accelerated.trusted
    assert told(first) == told(second) == told(Reference(SCHEMAS[name], columns(name))(payloads))


class Liar:
    """Decoder of wrong values whose encoding gives the very payload."""

    def __init__(self) -> None:
        self._payloads: list[bytes] = []

    def deserialize_array(self, payloads: list[bytes], _schema: str) -> Any:
        import pyarrow as pa

        self._payloads = payloads
        count = len(payloads)
        return pa.RecordBatch.from_pydict(
            {
                "CreatedDate": pa.array([0] * count, pa.int64()),
                "CreatedById": ["never"] * count,
                "Celsius__c": [1.0] * count,
                "Sensor__c": ["none"] * count,
            }
        )

    def serialize_record_batch(self, _batch: Any, _schema: str, _chunks: int) -> list[Any]:
        import pyarrow as pa

        return [pa.array(self._payloads, pa.binary())]
