"""Staging and tables on S3, with executors on a cluster.

moto's server takes the place of Amazon's; hadoop-aws is unchanged.
"""

from __future__ import annotations

import io
import json
import logging
import sys
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark.stores.hadoop_files import HadoopFiles
from airflow_provider_sfevents.submit.java import find_java
from tests.cluster import store as s3
from tests.cluster.conftest import ORDERS
from tests.cluster.in_process import InProcess
from tests.cluster.store import BUCKET, KEY, REGION, SECRET, Store
from tests.harness.jars import Jars, or_skip
from tests.harness.spark import jvm_of_its_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import Deployment
    from tests.cluster.machines import Cluster, ExecutorPython

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(900),
]


@pytest.fixture(scope="module")
def store() -> Iterator[Store]:
    with s3.running() as store:
        yield store


@pytest.fixture
def conf(store: Store, python: ExecutorPython, jars: Jars) -> dict[str, str]:
    """Spark's settings: the store, without its key; and jars that lie on every machine."""
    found = [*or_skip(lambda: jars.hadoop_aws), *or_skip(lambda: jars.delta)]
    classpath = ":".join(map(str, found))
    return {
        **store.spark(),
        "spark.driver.extraClassPath": classpath,
        "spark.executor.extraClassPath": classpath,
        "spark.pyspark.python": python.binary,
        # For one core, and few rows.
        "spark.sql.shuffle.partitions": "1",
        "spark.databricks.delta.snapshotPartitions": "1",
    }


def table(store: Store, keys: list[str]) -> list[tuple[str, str]]:
    """Replay id and number of every row in these files, in the order of delivery."""
    client: Any = store.client()
    bodies = [client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys]
    columns = ["batch_number", "batch_ordinal", "replay_id", "Order_Number__c"]
    landed = pa.concat_tables(pq.read_table(io.BytesIO(body), columns=columns) for body in bodies)
    order = [("batch_number", "ascending"), ("batch_ordinal", "ascending")]
    return [(row["replay_id"], row["Order_Number__c"]) for row in landed.sort_by(order).to_pylist()]


@pytest.mark.soak
def test_landed_and_landed_again_on_s3(
    cluster: Cluster,
    here: Deployment,
    store: Store,
    conf: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On S3, a cleared run replaces its batch's files, and each event is there once."""
    task = InProcess(
        here=here,
        monkeypatch=monkeypatch,
        arguments={
            "staging": "s3://store@lake/staging",
            "table": "s3a://lake/salesforce",
            "conf": conf,
            "env_vars": {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET},
        },
    )
    task.connect("store", store.connection())
    here.publish(300)

    first = task.land(cluster.master_url)
    files = store.keys("salesforce/Order__e/")
    again = task.land(cluster.master_url, clear_number=1)

    assert (first["events"], first["rerun"]) == (300, False)
    assert (again["batch_id"], again["rerun"]) == (first["batch_id"], True)
    assert store.keys("salesforce/Order__e/") == files
    assert table(store, files) == here.expected()
    assert here.bus.deliveries(ORDERS) == 300
    assert store.keys("salesforce/_batches/") == [
        f"salesforce/_batches/{first['batch_id']}-r2.parquet"
    ]
    assert store.keys("salesforce/_landing/") == []


def test_delta_on_s3_shows_the_key_nowhere(
    cluster: Cluster, here: Deployment, store: Store, conf: dict[str, str]
) -> None:
    """Delta on S3 has every event, and the connection's key is in no log, file or command line."""
    here.connect_spark(cluster.master_url)
    here.airflow.connect("store", store.connection())
    here.airflow.environment["TEST_CONF"] = json.dumps(conf)
    here.publish(300)
    run = here.run("delta_on_s3")
    assert run.state == "success", run.log

    landed = deltalake.DeltaTable(
        "s3://lake/delta/Order__e",
        storage_options={
            "AWS_ENDPOINT_URL": store.endpoint,
            "AWS_REGION": REGION,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_ALLOW_HTTP": "true",
        },
    )
    keys = [uri.removeprefix("s3://lake/") for uri in landed.file_uris()]
    assert table(store, keys) == here.expected()
    command = next(line for line in run.log.splitlines() if "Spark-Submit cmd" in line)
    assert "--manifest s3a://lake/staging/" in command
    assert "store@" not in command
    written = [path.read_bytes() for path in here.folder.rglob("*") if path.is_file()]
    assert SECRET not in run.log
    assert any(SECRET.encode() in one for one in written) is False


@pytest.fixture
def files(
    store: Store, conf: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[HadoopFiles]:
    """Spark's own file systems, the store among them, in a session of this process."""
    from pyspark.sql import SparkSession

    for name, value in {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET}.items():
        monkeypatch.setenv(name, value)
    # It says good-bye when pytest's streams are closed already.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    monkeypatch.setenv("JAVA_HOME", find_java().home)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    wanted = {name: value for name, value in conf.items() if "pyspark" not in name}
    builder = SparkSession.builder.master("local[1]").config(map=wanted)
    with jvm_of_its_own():
        session = builder.config("spark.ui.enabled", "false").getOrCreate()
        yield HadoopFiles(session)
        session.stop()


def test_one_of_two_creates_a_file_on_s3(files: HadoopFiles, store: Store) -> None:
    """One of two writers creates a file on S3, also if both have looked before either wrote.

    S3 supports each operation of the landing, or refuses it.
    """
    url, temporary = "s3a://lake/files/one.json", "s3a://lake/files/.tmp"
    assert files.create(url, b"first") is True
    assert files.create(url, b"second") is False
    assert files.read_bytes(url) == b"first"

    path, fs = files._at("s3a://lake/files/two.json")
    streams = [files._begin(fs, path) for _ in range(2)]
    for number, stream in enumerate(streams):
        stream.write(bytearray(b"%d" % number))
    streams[0].close()
    with pytest.raises(Py4JJavaError, match="RemoteFileChangedException"):
        streams[1].close()
    assert files.read_bytes("s3a://lake/files/two.json") == b"0"

    files.write_in_place(temporary, b"third")
    files.move(temporary, url)
    assert files.read_bytes(url) == b"third"
    assert files.names("s3a://lake/files") == ["one.json", "two.json"]
    with pytest.raises(StagingError, match="No such file"):
        files.move("s3a://lake/files/none.json", url)
    with pytest.raises(ConfigurationError, match="Spark has no jar for gs:// addresses"):
        files.exists("gs://lake/files")
