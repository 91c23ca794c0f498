"""Rows of staged files, without Spark."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_sfevents.spark.source.columns import decoding_plan, fixed_columns
from airflow_provider_sfevents.spark.source.staged_files import StagedFiles
from airflow_provider_sfevents.spark.source.staged_rows import StagedFile, read_rows
from tests.unit.spark.avro.test_executor_tasks import staged
from tests.unit.spark.conftest import encode

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

EVENTS = 10_003
MAPPED: dict[str, Any] = {
    "type": "record",
    "name": "Mapped__e",
    "fields": [
        {"name": "Number__c", "type": "int"},
        {"name": "Texts__c", "type": {"type": "map", "values": "string"}},
    ],
}


def test_a_schema_has_one_decoder_for_each_file(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A file of several chunks is decoded in order, by one decoder for each schema."""
    payloads = [encode(MAPPED, {"Number__c": n, "Texts__c": {}}) for n in range(EVENTS)]
    schemas = {"m": json.dumps(MAPPED)}
    fixed = fixed_columns("Mapped__e", [schemas], lambda _place: {}, rescues=False)
    url = str(tmp_path / "part.parquet")
    payloads = [encode(MAPPED, {"Number__c": n, "Texts__c": {}}) for n in range(EVENTS)]
    events = [staged(("m", payload), first=0) for payload in payloads]
    pq.write_table(pa.Table.from_batches(events), url)
    file = StagedFile(url=url, events=EVENTS, org_id="o", topic="t", batch_id="e-1", batch_number=1)
    caplog.set_level(logging.INFO)

    read = read_rows(StagedFiles.at(url), file, fixed, decoding_plan(fixed, schemas, {}))

    numbers = [batch.column("Number__c").to_pylist() for batch in read]
    assert [len(chunk) for chunk in numbers] == [10_000, 3]
    assert [number for chunk in numbers for number in chunk] == list(range(EVENTS))
    assert caplog.text.count("Decoded record by record") == 1
