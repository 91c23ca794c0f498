"""Iceberg tables of events and of current state, by name in a REST catalog over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.harness.catalogs import rest_catalog
from tests.harness.jars import or_skip
from tests.spark.lakes import Tables, upkeep
from tests.spark.orgs import A, B, CurrentState, event

if TYPE_CHECKING:
    from pathlib import Path

    from tests.harness.jars import Jars
    from tests.spark.conftest import Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

EXPECTED = [(batch_number, day) for batch_number in (1, 2) for day in range(2)]


def configure(spark: Any, catalog: str, kind: str, uri: str, **more: str) -> None:
    """Put a catalog into Spark's settings, as a user's `conf` does."""
    prefix = f"spark.sql.catalog.{catalog}"
    spark.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    for key, value in {"type": kind, "uri": uri, **more}.items():
        spark.conf.set(f"{prefix}.{key}", value)


def batches(staging: Staging) -> list[str]:
    return [
        staging.write([staging.order(10 * n + day, day=day) for day in range(2)], batch_number=n)
        for n in (1, 2)
    ]


def apply_all(state: CurrentState, staging: Staging) -> None:
    created = [
        event(staging, 3 + n, "CREATE", one, Industry="Mining") for n, one in enumerate((A, B))
    ]
    state.apply(state.stage(*created))
    changed = event(staging, 5, "UPDATE", A, Industry="Shipping"), event(staging, 6, "DELETE", B)
    state.apply(state.stage(*changed))


def test_a_rest_catalog(spark: Any, jars: Jars, staging: Staging, tmp_path: Path) -> None:
    """Batches land, are applied and maintained by name, and another client reads the result."""
    from pyiceberg.catalog import load_catalog

    or_skip(lambda: [*jars.iceberg, *jars.rest_catalog])
    with rest_catalog(jars, tmp_path / "warehouse") as uri:
        configure(spark, "over_http", "rest", uri)
        tables = Tables(spark, "over_http.shop", "iceberg", tmp_path / "warehouse" / "shop")
        manifests = batches(staging)
        for manifest in (*manifests, manifests[0]):
            tables.land(manifest, cluster_by=("bucket(2, event_id)",))
        state = CurrentState(spark, "over_http.org", "iceberg", staging)
        apply_all(state, staging)
        assert spark.sql("table over_http.org.Account.delete_files").count() == 0

        done = upkeep(tables, current_state=state.root)

        assert done["files_after"] < done["files"]
        assert done["skipped"] == []
        catalog = load_catalog("over_http", type="rest", uri=uri)
        orders = catalog.load_table("shop.Order__e").scan().to_arrow().to_pylist()
        found = sorted((row["batch_number"], row["batch_ordinal"]) for row in orders)
        assert found == EXPECTED
        accounts = catalog.load_table("org.Account").scan().to_arrow().to_pylist()
        assert [(row["record_id"], row["Industry"]) for row in accounts] == [(A, "Shipping")]
