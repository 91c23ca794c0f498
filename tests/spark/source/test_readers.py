"""The source `sfevents` without a JVM: its readers, as Spark's Python processes call them."""

from __future__ import annotations

import json
import pickle
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.types import IntegerType, StructField, StructType

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark.source import SfEventsDataSource
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Receipt
from airflow_provider_sfevents.staging.sidecar_files import Swept
from tests.spark.conftest import EPOCH

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.spark.source.conftest import Topic


class Query:
    """A loaded query, whose objects are pickled on their way, as Spark pickles them."""

    def __init__(self, topic: Topic, **options: str) -> None:
        source = SfEventsDataSource({"path": str(topic.folder), **options})
        self.columns = source.schema()
        self.source = pickle.loads(pickle.dumps(source))  # noqa: S301 - our own
        self.stream = self.source.streamReader(StructType())

    def read(self) -> list[dict[str, Any]]:
        """All rows of a batch read."""
        reader = self.source.reader(StructType())
        return self._rows(reader, reader.partitions())

    def next(self, start: dict[str, Any]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Rows of the next micro-batch, and its end."""
        end = self.stream.latestOffset()
        return self._rows(self.stream, self.stream.partitions(start, end)), end

    def _rows(self, reader: Any, partitions: Iterable[Any]) -> list[dict[str, Any]]:
        reader = pickle.loads(pickle.dumps(reader))  # noqa: S301 - our own
        sent = pickle.loads(pickle.dumps(list(partitions)))  # noqa: S301 - our own
        return [row for one in sent for batch in reader.read(one) for row in batch.to_pylist()]


def values(rows: Iterable[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


@pytest.fixture
def begun(topic: Topic) -> Topic:
    """A topic whose first epoch has begun."""
    topic.begin(EPOCH)
    return topic


def test_raw_payloads_come_with_their_envelope(begun: Topic) -> None:
    """Without an event type each staged event is a row with its envelope and its payload."""
    events = [begun.order(1), begun.event("alert", CreatedDate=0, CreatedById="5", At__c=1)]
    begun.write(events)
    begun.land(1)

    query = Query(begun)

    assert query.columns.startswith("`event_id` string, `received_at` timestamp, `replay_id`")
    rows = query.read()
    assert values(rows, "event_id", "schema_id", "raw_payload") == [
        ("id-0", "order", events[0][1]),
        ("id-1", "alert", events[1][1]),
    ]
    assert values(rows, "batch_id", "batch_number", "batch_ordinal", "replay_id")[1] == (
        "0f3c-1",
        1,
        1,
        "000000000000f3a10001",
    )


def test_undecodable_events_have_the_reason(begun: Topic) -> None:
    """An event that does not decode is a row with the reason and its raw payload."""
    begun.write(
        [
            begun.order(1),
            ("order", b"\x00"),
            ("gone", b"?"),
            begun.event("alert", CreatedDate=0, CreatedById="5", At__c=1),
        ]
    )
    (begun.batch / layout.unknown_schema_name("gone")).write_text("no such schema")
    begun.land(1)

    rows = Query(begun, event_type="Order__e").read()

    assert values(rows, "batch_ordinal", "Number__c", "raw_payload") == [
        (0, "N1", None),
        (1, None, b"\x00"),
        (2, None, b"?"),
    ]
    assert rows[0]["quarantine_reason"] is None
    assert "payload ends before the event's schema does" in rows[1]["quarantine_reason"]
    assert rows[2]["quarantine_reason"] == "no such schema"


def test_a_batch_that_has_not_landed_is_not_read(begun: Topic) -> None:
    """The newest batch is read once it has a receipt."""
    begun.stage([1])
    begun.write([begun.order(2)], batch_number=2)
    query = Query(begun, event_type="Order__e")
    assert values(query.read(), "Number__c") == [("N1",)]
    begun.land(2)
    assert values(query.read(), "Number__c") == [("N1",), ("N2",)]


def test_micro_batches_are_bounded(begun: Topic) -> None:
    """A first start reads all batches in micro-batches of at most the bound, each batch once."""
    begun.stage(range(1, 8))
    query = Query(begun, event_type="Order__e", maxBatchesPerTrigger="3")
    offset = query.stream.initialOffset()
    read = []
    for _ in range(4):
        rows, offset = query.next(offset)
        read.append([row["batch_number"] for row in rows])
    assert read == [[1, 2, 3], [4, 5, 6], [7], []]


def test_a_restarted_stream_learns_its_offset_from_an_empty_range(begun: Topic) -> None:
    """After a restart Spark plans an empty range, from which the reader continues."""
    begun.stage(range(1, 4))
    offset = {"staging_id": "a1", "epoch": EPOCH, "batch_number": 2}
    query = Query(begun)
    assert query.stream.partitions(offset, offset) == []
    rows, end = query.next(offset)
    assert values(rows, "batch_number") == [(3,)]
    query.stream.commit(end)
    assert len(query.read()) == 3


def test_events_delivered_again_come_again(begun: Topic) -> None:
    """An event that the bus delivered twice is two rows with one event id."""
    for number in (1, 2):
        begun.write([begun.order(7)], batch_number=number, ids=["same"])
        begun.land(number)
    assert values(Query(begun).read(), "event_id", "batch_number") == [("same", 1), ("same", 2)]


def test_a_batch_that_is_swept_while_it_is_read_is_an_error(begun: Topic) -> None:
    """A file that is removed after the planning is an error with the remedy."""
    begun.stage([1])
    reader = Query(begun).source.reader(StructType())
    planned = reader.partitions()
    shutil.rmtree(begun.batch)
    with pytest.raises(StagingError, match=r"was removed while the query was reading it: .* swept"):
        list(reader.read(planned[0]))


def test_a_swept_batch_is_an_error_with_the_remedy(begun: Topic) -> None:
    """A stream whose next batch was swept says so; a new query begins after it."""
    begun.stage([3])
    (begun.folder / EPOCH / layout.SWEPT).write_text(Swept(batch_number=2).to_json())
    query = Query(begun)
    offset = {"staging_id": "a1", "epoch": EPOCH, "batch_number": 1}
    query.stream.partitions(offset, offset)
    with pytest.raises(StagingError, match=r"0f3c-2, is not in .*: it was swept\. Start the query"):
        query.stream.latestOffset()
    assert query.stream.initialOffset()["batch_number"] == 2


def test_a_shorter_form_of_a_landed_batch_is_refused(begun: Topic) -> None:
    """A batch that landed with more events from another staging area is not read as if whole."""
    begun.stage([1])
    file = begun.batch / layout.RECEIPT
    receipt = Receipt.from_json(file.read_text(), "receipt.json")
    file.write_text(json.dumps({**json.loads(receipt.to_json()), "events": 9}))
    with pytest.raises(StagingError, match=r"0f3c-1 has landed .* with 9 events; .* has 1 of them"):
        Query(begun).read()


def test_a_changed_file_is_refused(begun: Topic) -> None:
    """A staged file with another number of events than in the manifest is an error."""
    begun.stage([1, 2])
    first, second = sorted(begun.folder.rglob("part-*.parquet"))
    begun.write([begun.order(1), begun.order(2)], batch_number=3)
    third = next(begun.batch.rglob("part-*.parquet"))
    shutil.copy(third, first)
    with pytest.raises(StagingError, match=r"holds 2 events, the manifest says 1"):
        Query(begun).read()
    assert second.exists()


def test_a_struct_with_a_later_member_is_rescued_whole(begun: Topic) -> None:
    """A member that joins a struct later is rescued with its whole struct, under the field."""
    begun.schemas["deep"] = _nested("a")
    begun.schemas["deeper"] = _nested("a", "b")
    begun.write([begun.event("deep", CreatedDate=0, Inner={"a": "1"})])
    begun.land(1)
    query = Query(begun, event_type="Deep__e", later_fields="rescue")
    strict = Query(begun, event_type="Deep__e")
    begun.write([begun.event("deeper", CreatedDate=0, Inner={"a": "2", "b": "3"})], batch_number=2)
    begun.land(2)

    rows = query.read()

    assert values(rows, "Inner", "_rescued") == [
        ({"a": "1"}, None),
        ({"a": "2"}, '{"Inner": {"a": "2", "b": "3"}}'),
    ]
    with pytest.raises(ConfigurationError, match=r"restart to take column Inner\.b"):
        strict.read()


def _nested(*members: str) -> dict[str, Any]:
    inner = {
        "type": "record",
        "name": "Inner",
        "fields": [{"name": one, "type": ["null", "string"]} for one in members],
    }
    fields = [{"name": "CreatedDate", "type": "long"}, {"name": "Inner", "type": inner}]
    return {"type": "record", "name": "Deep__e", "namespace": "x", "fields": fields}


def test_an_unknown_event_type_is_refused(begun: Topic) -> None:
    """An event type of which nothing is staged is refused, with the ones that are there."""
    begun.stage([1])
    with pytest.raises(ConfigurationError, match=r"of type 'Nope__e'\. It has Order__e\. Name one"):
        Query(begun, event_type="Nope__e")


def test_a_folder_without_a_staging_area_is_refused(begun: Topic) -> None:
    """A path with no staging area around it is refused, with the form that it needs."""
    with pytest.raises(ConfigurationError, match=r"There is no staging area around .*/elsewhere"):
        Query(begun, path=str(begun.folder.parent / "elsewhere" / "a" / "b" / "elsewhere"))


def test_a_schema_of_the_users_own_is_refused(begun: Topic) -> None:
    """A query with `.schema(...)` is refused, because the columns follow from the event type."""
    source = SfEventsDataSource({"path": str(begun.folder)})
    with pytest.raises(ConfigurationError, match=r"Leave \.schema\(\.\.\.\) out"):
        source.reader(StructType([StructField("a", IntegerType())]))


def test_a_folder_in_which_nothing_was_staged_is_refused(topic: Topic) -> None:
    """A read of a misspelled consumer or topic is no empty table."""
    with pytest.raises(ConfigurationError, match=r"Nothing was ever staged in .*Check `path`"):
        Query(topic).read()
    with pytest.raises(ConfigurationError, match="'lake/staging' is relative"):
        SfEventsDataSource({"path": "lake/staging"}).schema()


@pytest.mark.parametrize("event_type", ["", "Order__e"])
def test_a_damaged_file_is_named(begun: Topic, event_type: str) -> None:
    """A staged file that was cut is named, with what to do."""
    begun.stage([1])
    [part] = begun.folder.rglob("*.parquet")
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(StagingError, match=rf"{part.name} cannot be read: .*restore it"):
        Query(begun, **({"event_type": event_type} if event_type else {})).read()


def test_an_empty_topic_waits(topic: Topic) -> None:
    """A stream of raw payloads starts before anything is staged, and reads the first batch."""
    topic.folder.mkdir(parents=True)
    query = Query(topic)
    offset = query.stream.initialOffset()
    assert query.next(offset) == ([], offset)
    topic.begin(EPOCH)
    topic.stage([1])
    rows, _ = query.next(offset)
    assert values(rows, "batch_number") == [(1,)]
