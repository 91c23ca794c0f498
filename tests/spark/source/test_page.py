"""Each example of `docs/how-to/read-staged-batches.md` runs as it stands there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.pages import Page
from tests.spark.conftest import EPOCH
from tests.spark.source.test_stream import patiently

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.source.conftest import Topic

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def page() -> Page:
    return Page("how-to/read-staged-batches.md")


@pytest.fixture
def org_id() -> str:
    return "00D000000000001AAA"


def run(example: str, tmp_path: Path, spark: Any) -> dict[str, Any]:
    """Run an example on folders of this test, and return the names that it has set."""
    for folder in ("/staging", "/checkpoints", "/lake"):
        example = example.replace(f'"{folder}', f'"{tmp_path}{folder}')
    found: dict[str, Any] = {"spark": spark}
    exec(example, found)  # noqa: S102 - our own page
    return found


def test_staged_batches_are_read(spark: Any, topic: Topic, tmp_path: Path, page: Page) -> None:
    """The page's examples of a table read the landed batches, decoded and raw."""
    topic.begin(EPOCH)
    topic.stage([1, 2])
    decoded, raw = page.samples("python", "## A table")

    assert run(decoded, tmp_path, spark)["decoded"].count() == 2
    assert run(raw, tmp_path, spark)["payloads"].count() == 2


@pytest.mark.full
def test_staged_batches_are_streamed(spark: Any, topic: Topic, tmp_path: Path, page: Page) -> None:
    """The page's example of a stream writes the landed batches."""
    topic.begin(EPOCH)
    topic.stage([1, 2])
    [example] = page.samples("python", "## A stream")

    def followed() -> None:
        query = run(example, tmp_path, spark)["query"]
        query.processAllAvailable()
        query.stop()

    patiently(followed)

    assert spark.read.parquet(f"{tmp_path}/lake/orders_live").count() == 2
