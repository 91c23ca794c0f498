"""DataFrames that Spark has written, read as the records of events."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any

import fastavro
import pytest

from airflow_provider_sfevents.hooks.record_files import read_records, record_files
from airflow_provider_sfevents.pubsub.publishing.event_encoder import EventEncoder, checked

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.full]

TYPES = {
    "Text__c": ("string", "Text"),
    "Price__c": ("double", "Currency"),
    "Count__c": ("double", "Double"),
    "Sent_At__c": ("long", "DateTime"),
    "Due__c": ("long", "DateOnly"),
    "Fragile__c": ("boolean", "Boolean"),
}
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Parcel__e",
        "fields": [
            {"name": name, "type": ["null", kind], "default": None, "doc": f"Data:{meaning}"}
            for name, (kind, meaning) in TYPES.items()
        ],
    }
)
COLUMNS = (
    "Text__c string, Price__c decimal(18,2), Count__c bigint, Sent_At__c timestamp, Due__c date, "
    "Fragile__c boolean"
)
SENT = datetime(2026, 1, 31, 12, 30, 0, 123456, tzinfo=UTC)
ROWS = [
    ("Grüße 東京 🎉\n\u2028\"'", Decimal("1234567890.12"), 2**53, SENT, date(2026, 2, 3), True),
    *[(f"P-{number}", None, number, None, None, None) for number in range(30)],
]


def published(place: Path) -> list[dict[str, Any]]:
    """Return the events that a publish would send, decoded."""
    encoder = EventEncoder(
        SCHEMA, topic="/event/Parcel__e", schema_id="S", now=datetime.now(UTC), user_id=""
    )
    parsed = fastavro.parse_schema(json.loads(SCHEMA))
    events = checked(encoder, read_records(record_files(place.as_uri())))
    found = [fastavro.schemaless_reader(BytesIO(one.payload), parsed, None) for one in events]
    return [dict(one) for one in found if isinstance(one, dict)]


@pytest.mark.parametrize(
    ("file_format", "options"),
    [("parquet", {}), ("json", {"compression": "gzip"})],
    ids=["parquet", "json"],
)
def test_every_value_of_a_dataframe(
    spark: Any, tmp_path: Path, file_format: str, options: dict[str, str]
) -> None:
    """Every value of a DataFrame, decimals and times included, arrives in the published events."""
    frame = spark.createDataFrame(ROWS, COLUMNS).repartition(3)
    frame.write.format(file_format).options(**options).save(str(tmp_path / "parcels"))
    found = {one["Text__c"]: one for one in published(tmp_path / "parcels")}
    assert found.pop(ROWS[0][0]) == {
        "Text__c": ROWS[0][0],
        "Price__c": 1234567890.12,
        "Count__c": 2.0**53,
        "Sent_At__c": int(SENT.timestamp() * 1000),
        "Due__c": 1_770_076_800_000,
        "Fragile__c": True,
    }
    assert {name: one["Count__c"] for name, one in found.items()} == {
        f"P-{number}": number for number in range(30)
    }


@pytest.mark.parametrize("file_format", ["parquet", "json"])
def test_a_dataframe_without_rows(spark: Any, tmp_path: Path, file_format: str) -> None:
    """A DataFrame without rows publishes nothing and is no error."""
    frame = spark.createDataFrame([], COLUMNS)
    frame.write.format(file_format).save(str(tmp_path / "parcels"))
    assert published(tmp_path / "parcels") == []
