"""OpenLineage: Spark's own listener and this package name each table alike."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.operators.lineage import dataset_name
from airflow_provider_sfevents.spark.tables import delta
from airflow_provider_sfevents.spark.tables.sessions import EXTENSIONS
from airflow_provider_sfevents.submit.preflight import quick_start
from tests.harness.jars import or_skip
from tests.harness.spark import jvm_of_its_own
from tests.spark.lakes import Tables

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.harness.jars import Jars
    from tests.spark.conftest import Staging

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]


@pytest.fixture
def listened(jars: Jars, tmp_path: Path) -> Iterator[Any]:
    from pyspark.sql import SparkSession

    paths = or_skip(lambda: [*jars.delta, *jars.iceberg, *jars.openlineage])
    logging.getLogger("py4j").setLevel(logging.WARNING)
    with jvm_of_its_own():
        session = (
            SparkSession.builder.master("local[2]")
            .config(map=quick_start("local[2]", 0, {}))
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.log.level", "ERROR")
            .config("spark.sql.warehouse.dir", str(tmp_path / "warehouse"))
            .config("spark.jars", ",".join(map(str, paths)))
            .config(EXTENSIONS, delta.EXTENSION)
            .config("spark.extraListeners", "io.openlineage.spark.agent.OpenLineageSparkListener")
            .config("spark.openlineage.transport.type", "file")
            .config("spark.openlineage.transport.location", str(tmp_path / "events.jsonl"))
            .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
            .config("spark.sql.catalog.lake.type", "hadoop")
            .config("spark.sql.catalog.lake.warehouse", str(tmp_path / "hadoop"))
            .config("spark.sql.catalog.spark_catalog", delta.CATALOG)
            .getOrCreate()
        )
        yield session
        session.stop()


@pytest.mark.soak
def test_spark_and_the_operators_name_each_table_alike(
    listened: Any, staging: Staging, tmp_path: Path
) -> None:
    """Each table of Delta and Iceberg, by path or in a catalog, is one dataset in both streams."""
    manifest = staging.write([staging.order(1)])
    ours = {}
    for table, table_format in (
        (str(tmp_path / "delta"), "delta"),
        ("lake.sales", "iceberg"),
        ("spark_catalog.sales", "delta"),
    ):
        receipt = Tables(listened, table, table_format, tmp_path).land(manifest)
        [label] = receipt.tables
        ours[label] = dataset_name(receipt.locations.get(label, label))
    listened.stop()  # the listener sends its last events before
    outputs = [
        (one["namespace"], one["name"])
        for line in (tmp_path / "events.jsonl").read_text().splitlines()
        for one in json.loads(line)["outputs"]
    ]
    theirs = {
        one for one in outputs if one[1].lower().endswith("order__e") and "_landing" not in one[1]
    }
    assert theirs == set(ours.values()), (ours, sorted(set(outputs)))
