"""Parquet files that tasks make, without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_sfevents.spark.landing.table_files import (
    SEPARATOR,
    FileTask,
    codec_of,
    table_files,
)
from tests.unit.spark.avro.test_executor_tasks import staged, task

if TYPE_CHECKING:
    from collections.abc import Callable

DAY_MS = 86_400_000
OF_BATCH: dict[str, str | int] = {
    "org_id": "00D",
    "event_topic": "/event/X",
    "batch_id": "e-1",
    "batch_number": 1,
}


def files(made: Any) -> dict[tuple[str, str], bytes]:
    """Files by table and date, as Spark's text sink puts pieces together."""
    found: dict[tuple[str, str], bytes] = {}
    for batch in made:
        for row in batch.to_pylist():
            key = (row["event_table"], str(row["event_date"]))
            found[key] = found.get(key, b"") + row["file"] + SEPARATOR.encode()
    return found


@pytest.mark.parametrize(("most_held", "row_groups"), [(2**26, {1}), (0, {3, 6})])
def test_all_tables_of_a_split_are_made_by_one_task(
    order_schema: str,
    account_schema: str,
    order: Callable[..., bytes],
    account: Callable[..., bytes],
    most_held: int,
    row_groups: set[int],
) -> None:
    """A table and date is one file in the batch's order, of one piece or of one for each row."""
    schemas = {"o": order_schema, "later": order_schema, "a": account_schema}
    wanted = FileTask(
        decoding=task(schemas),
        of_batch=OF_BATCH,
        tables=None,
        codec="snappy",
        most_held=most_held,
    )
    batches = [
        staged(("later", order()), ("o", order()), ("a", account()), ("o", b"x"), first=first)
        for first in (0, 4, 8)
    ]

    made = files(table_files(wanted, iter(batches)))

    tables = {table: pq.ParquetFile(pa.BufferReader(made[table, day])) for table, day in made}
    ordinals = {table: file.read()["batch_ordinal"].to_pylist() for table, file in tables.items()}
    assert ordinals == {
        "Order__e": [0, 1, 4, 5, 8, 9],
        "AccountChangeEvent": [2, 6, 10],
        "_quarantine": [3, 7, 11],
    }
    assert {file.num_row_groups for file in tables.values()} == row_groups
    [first, *_] = tables["Order__e"].read().to_pylist()
    assert first.items() >= {**OF_BATCH, "replay_id": "00", "event_id": "id-0"}.items()


def test_only_wanted_tables_are_made_and_each_date_is_a_file(
    order_schema: str, order: Callable[..., bytes]
) -> None:
    """Files of other tables are left out, and rows of two dates are two files."""
    decoding = task({"o": order_schema})
    wanted = frozenset({"Order__e"})
    only = FileTask(decoding=decoding, of_batch=OF_BATCH, tables=wanted, codec="none")
    later = order(CreatedDate=1_793_491_200_000 + DAY_MS)

    made = files(table_files(only, iter([staged(("o", order()), ("o", later), ("o", b"x"))])))

    assert sorted(made) == [("Order__e", "2026-11-01"), ("Order__e", "2026-11-02")]


def test_codecs_have_their_names_in_arrow() -> None:
    """The codec that Spark is set to is the files' codec, whatever Arrow calls it."""
    names = ("snappy", "ZSTD", "uncompressed", "lz4_raw")
    assert [pa.Codec.is_available(codec_of(name)) for name in names[:2]] == [True, True]
    assert [codec_of(name) for name in names] == ["snappy", "zstd", "none", "lz4"]
