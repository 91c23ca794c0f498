"""An S3 on a socket: moto's server, in this process."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

BUCKET = "lake"
KEY, SECRET = "AKIDOFATEST", "neverseenonacommandline"
REGION = "us-east-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """One bucket on moto's server.

    moto checks no keys, so a test has to look where the keys go.
    """

    endpoint: str

    def connection(self) -> dict[str, Any]:
        """Airflow's connection to it."""
        extra = {"endpoint_url": self.endpoint, "region_name": REGION}
        return {"conn_type": "aws", "login": KEY, "password": SECRET, "extra": extra}

    def spark(self) -> dict[str, str]:
        """Spark's settings for it; without keys."""
        return {
            "spark.hadoop.fs.s3a.endpoint": self.endpoint,
            "spark.hadoop.fs.s3a.endpoint.region": REGION,
            "spark.hadoop.fs.s3a.path.style.access": "true",
        }

    def client(self) -> Any:
        import boto3  # type: ignore[import-untyped]

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=REGION,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
        )

    def keys(self, prefix: str) -> list[str]:
        """Names of objects, without those that stand for folders."""
        pages = (
            self.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        )
        found = [one["Key"] for page in pages for one in page.get("Contents", [])]
        return [key for key in found if not key.endswith("/")]


@contextmanager
def running() -> Iterator[Store]:
    """The store, for the length of a block."""
    from moto.moto_server.threaded_moto_server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        store = Store(endpoint=f"http://{host}:{port}")
        store.client().create_bucket(Bucket=BUCKET)
        yield store
    finally:
        server.stop()
