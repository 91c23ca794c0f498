"""Publishing files from an object store, with the ledger there, on moto's server."""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_sfevents.operators.publish import SfEventsPublishOperator
from tests.cluster import store as s3
from tests.cluster.store import BUCKET, KEY, SECRET
from tests.integration.operators.conftest import ORDERS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.store import Store
    from tests.integration.operators.conftest import Task

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3.running() as store:
        yield store


def publish(task: Task, files: str) -> dict[str, Any]:
    _, run = task.prepare_alone(
        SfEventsPublishOperator,
        topic=ORDERS,
        files=f"s3://aws_test@{BUCKET}/{files}",
        staging=f"s3://aws_test@{BUCKET}/staging",
    )
    done: dict[str, Any] = run()
    return done


def test_files_and_ledger_in_an_object_store(task: Task, store: Store) -> None:
    """Parquet, JSON lines and ledger are used in a bucket, and no key is in the result."""
    task.connect("aws_test", store.connection())
    numbers = [f"S-{number}" for number in range(50)]
    table = io.BytesIO()
    pq.write_table(pa.table({"Order_Number__c": numbers}), table)
    lines = "".join(json.dumps({"Order_Number__c": number}) + "\n" for number in numbers)
    put = store.client().put_object
    put(Bucket=BUCKET, Key="orders/part-00000.snappy.parquet", Body=table.getvalue())
    put(Bucket=BUCKET, Key="orders/_SUCCESS", Body=b"")
    put(Bucket=BUCKET, Key="more/orders.jsonl", Body=lines.encode())
    first = publish(task, "orders")
    assert (first["published"], first["before"]) == (50, 0)
    # The same records in the same order, so the same events, in any kind of file.
    again = publish(task, "more/orders.jsonl")
    assert (again["published"], again["before"]) == (0, 50)
    assert first["ledger"].startswith(f"s3://{BUCKET}/staging/_published/")
    assert not {KEY, SECRET, "aws_test"} & set(json.dumps(first).split('"'))
    with pytest.raises(AirflowFailException, match="there is no file and no folder with files"):
        publish(task, "nowhere")
