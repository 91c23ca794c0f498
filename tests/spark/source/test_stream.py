"""The source `sfevents` as a stream: each settled batch once, by its number, across restarts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException

from airflow_provider_sfevents.spark.source import register
from tests.spark.conftest import EPOCH

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.spark.source.conftest import Topic

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


class Stream:
    """A query from a topic into files, with its checkpoint."""

    def __init__(self, spark: Any, topic: Topic, folder: Path, **options: Any) -> None:
        self.spark = spark
        self.topic = topic
        self.folder = folder
        self.options = options

    def start(self, **trigger: Any) -> Any:
        register(self.spark)
        loaded = self.spark.readStream.format("sfevents").options(**self.options)
        rows = loaded.load(str(self.topic.folder))
        writer = rows.writeStream.format("parquet").option("path", str(self.folder / "out"))
        writer = writer.option("checkpointLocation", str(self.folder / "checkpoint"))
        return writer.trigger(**trigger).start()

    def follow(self) -> Any:
        """Start the query, and let it run until nothing more is offered."""

        def followed() -> Any:
            query = self.start(processingTime="0 seconds")
            query.processAllAvailable()
            return query

        return patiently(followed)

    def once(self) -> None:
        """Run the query with the trigger `availableNow`."""
        patiently(lambda: self.start(availableNow=True).awaitTermination())

    def rows(self, *columns: str) -> list[tuple[Any, ...]]:
        """Rows that the query has written, in the batches' order."""
        found = self.spark.read.parquet(str(self.folder / "out"))
        ordered = found.orderBy("batch_number", "batch_ordinal")
        return [tuple(row) for row in ordered.selectExpr(*columns).collect()]


def patiently(act: Callable[[], Any]) -> Any:
    """Start a query again if its Python process was too slow to start.

    Spark waits 10 seconds for it, which a busy machine exceeds. Nothing has been read by then.
    """
    for tries_left in reversed(range(10)):
        try:
            return act()
        except StreamingQueryException as error:
            if "Python worker failed to connect back" not in str(error) or not tries_left:
                raise
    raise AssertionError("unreachable")


@pytest.fixture
def stream(spark: Any, topic: Topic, tmp_path: Path) -> Stream:
    return Stream(spark, topic, tmp_path, event_type="Order__e")


def test_a_stream_continues_from_its_checkpoint(stream: Stream, topic: Topic) -> None:
    """A restarted stream reads only later batches, and waits for the one that has not landed."""
    topic.begin(EPOCH)
    topic.stage([1, 2])
    stream.once()
    topic.stage([3])
    topic.stage([4], landed=False)
    stream.once()
    stream.once()
    before = stream.rows("batch_number", "Number__c")
    topic.land(4)
    stream.once()

    assert before == [(1, "N1"), (2, "N2"), (3, "N3")]
    assert stream.rows("batch_number") == [(1,), (2,), (3,), (4,)]


def test_a_later_field_ends_the_stream_until_it_is_loaded_again(
    stream: Stream, topic: Topic
) -> None:
    """A field that is staged while the stream runs ends it; the restarted one has its column."""
    topic.begin(EPOCH)
    topic.stage([1])
    query = stream.follow()
    try:
        newer = topic.event("order2", CreatedDate=0, CreatedById="5", Number__c="new", Size__c=7)
        topic.write([newer], batch_number=2)
        topic.land(2)
        with pytest.raises(Exception, match="restart to take column Size__c"):
            query.processAllAvailable()
    finally:
        query.stop()
    stream.once()

    files = stream.spark.read.option("mergeSchema", "true").parquet(str(stream.folder / "out"))
    rows = files.orderBy("batch_number").select("Number__c", "Size__c").collect()
    assert [tuple(row) for row in rows] == [("N1", None), ("new", 7)]


@pytest.mark.full
def test_a_later_field_is_rescued_on_request(stream: Stream, topic: Topic) -> None:
    """With `later_fields` set to rescue, a field of a running stream goes to `_rescued`."""
    topic.begin(EPOCH)
    topic.stage([1])
    stream.options["later_fields"] = "rescue"
    query = stream.follow()
    try:
        newer = topic.event("order2", CreatedDate=0, CreatedById="5", Number__c="new", Size__c=7)
        topic.write([newer, topic.order(5), ("order2", b"")], batch_number=2)
        topic.land(2)
        query.processAllAvailable()
    finally:
        query.stop()

    rows = stream.rows("Number__c", "_rescued", "quarantine_reason is null")
    assert rows == [
        ("N1", None, True),
        ("new", '{"Size__c": 7}', True),
        ("N5", None, True),
        (None, None, False),
    ]


@pytest.mark.full
def test_available_now_takes_one_micro_batch(stream: Stream, topic: Topic) -> None:
    """The trigger `availableNow` makes one micro-batch of a Python source, within the bound."""
    topic.begin(EPOCH)
    topic.stage(range(1, 6))
    stream.options["maxBatchesPerTrigger"] = 3
    stream.once()
    first = stream.rows("batch_number")
    stream.options["maxBatchesPerTrigger"] = 1_000_000
    stream.once()

    assert first == [(1,), (2,), (3,)]
    assert stream.rows("batch_number") == [(1,), (2,), (3,), (4,), (5,)]
