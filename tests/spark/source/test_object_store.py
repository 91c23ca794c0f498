"""The source `sfevents` on S3, with credentials from the environment alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster import store as s3
from tests.spark.conftest import EPOCH
from tests.spark.source.test_readers import Query, values

if TYPE_CHECKING:
    from tests.spark.source.conftest import Topic

pytestmark = pytest.mark.full


def test_staged_batches_are_read_from_a_bucket(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic in a bucket is read by its folder's URL, in the form of Spark and of Airflow."""
    topic.begin(EPOCH)
    topic.stage([1, 2])
    root = topic.folder.parents[2]
    with s3.running() as store:
        for name, value in {
            "AWS_ACCESS_KEY_ID": s3.KEY,
            "AWS_SECRET_ACCESS_KEY": s3.SECRET,
            "AWS_ENDPOINT_URL": store.endpoint,
            "AWS_DEFAULT_REGION": s3.REGION,
        }.items():
            monkeypatch.setenv(name, value)
        for file in root.rglob("*"):
            if file.is_file():
                key = f"my staging/{file.relative_to(root)}"
                store.client().put_object(Bucket=s3.BUCKET, Key=key, Body=file.read_bytes())
        found = [
            values(
                Query(
                    topic,
                    path=f"{scheme}://{s3.BUCKET}/my staging/{topic.folder.relative_to(root)}",
                ).read(),
                "raw_payload",
            )
            for scheme in ("s3", "s3a")
        ]
    assert found[0] == found[1]
    assert len(found[0]) == 2
