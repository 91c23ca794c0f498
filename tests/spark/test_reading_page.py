"""Each example of `docs/how-to/read-tables.md` runs as it stands there, on landed tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from tests.harness.pages import Page
from tests.spark.lakes import by_path

if TYPE_CHECKING:
    from pathlib import Path

    from tests.harness.jars import Jars
    from tests.spark.conftest import Staging

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

ORDERS, COMPLETE = 6, 4
"""Events that decode, in all batches, and those in batches that have landed completely."""


@pytest.fixture
def page() -> Page:
    return Page("how-to/read-tables.md")


def landed(spark: Any, staging: Staging, folder: Path, table_format: str) -> Path:
    """Land batches, one of which has a new field and an event that does not decode.

    The last batch has no row in the ledger yet. A Parquet table gets three batches, since its
    readers depend on the columns of each file.
    """
    root = folder / "salesforce"
    orders = [staging.order(number) for number in range(3)]
    longer = staging.event("order2", CreatedDate=1_793_491_200_000, CreatedById="5", Size__c=1)
    odd = [longer, ("order", b"\x00")]
    complete = [orders, odd] if table_format == "parquet" else [[*orders, *odd]]
    batches = [*complete, orders[:2]]
    for number, events in enumerate(batches, 1):
        manifest = staging.write(events, batch_number=number)
        land(
            spark, LandingOptions(manifest_url=manifest, table=str(root), table_format=table_format)
        )
    by_path(table_format, spark, root).forget(f"0f3c-{len(batches)}")
    return root


def run(example: str, root: Path, **names: Any) -> dict[str, Any]:
    """Run Python code, and return the names that it has set."""
    found: dict[str, Any] = dict(names)
    exec(example.replace("/lake/salesforce", str(root)), found)  # noqa: S102 - our own page
    return found


def count(rows: Any) -> int:
    """Count the rows of a frame or table of any library."""
    return int(rows.count()) if hasattr(rows, "sparkSession") else len(rows)


@pytest.fixture(scope="module")
def parquet(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.spark.conftest import Staging

    folder = tmp_path_factory.mktemp("reading")
    return landed(spark, Staging(folder / "staging"), folder, "parquet")


@pytest.mark.parametrize(
    ("heading", "added"),
    [("### Spark", {"Size__c"}), ("### pandas", set()), ("### PyArrow", {"Size__c"})],
)
def test_parquet_tables_are_read_in_python(
    spark: Any, parquet: Path, page: Page, heading: str, added: set[str]
) -> None:
    """The page's Python examples read all rows, those of complete batches, and an added column."""
    for example in page.samples("python", heading):
        found = run(example, parquet, spark=spark)

        assert (count(found["orders"]), count(found["complete"])) == (ORDERS, COMPLETE)
        orders = found["orders"]
        names = orders.column_names if heading == "### PyArrow" else orders.columns
        assert {"Number__c", "event_date", *added} <= {*names}


def test_parquet_tables_are_read_in_sql(spark: Any, parquet: Path, page: Page) -> None:
    """The page's SQL examples read the complete batches, in Spark and in DuckDB."""
    import duckdb

    [by_spark] = page.samples("sql", "### Spark")
    [by_duckdb] = page.samples("sql", "### DuckDB")

    assert spark.sql(by_spark.replace("/lake/salesforce", str(parquet))).count() == COMPLETE
    with duckdb.connect() as connection:
        rows = connection.sql(by_duckdb.replace("/lake/salesforce", str(parquet)))
        assert len(rows.fetchall()) == COMPLETE
        assert "Size__c" in rows.columns


def test_quarantine_is_read(spark: Any, parquet: Path, page: Page) -> None:
    """The page's example reads the event that does not decode, with the reason."""
    [example] = page.samples("python", "## Quarantine")

    found = run(example, parquet, spark=spark)

    assert [row["count"] for row in found["reasons"].collect()] == [1]


@pytest.mark.full
@pytest.mark.parametrize(
    ("heading", "table_format"), [("## Delta", "delta"), ("## Iceberg", "iceberg")]
)
def test_tables_of_a_format_are_read_with_spark_and_without(
    spark: Any,
    jars: Jars,
    staging: Staging,
    tmp_path: Path,
    page: Page,
    heading: str,
    table_format: str,
) -> None:
    """The page's examples read all rows, and complete batches, in Spark and without it."""
    from tests.harness.jars import or_skip

    or_skip(lambda: getattr(jars, table_format))
    root = landed(spark, staging, tmp_path, table_format)
    session, _ = by_path(table_format, spark, root).opened()
    if table_format == "iceberg":
        for key, value in {
            "": "org.apache.iceberg.spark.SparkCatalog",
            ".type": "hadoop",
            ".warehouse": str(tmp_path),
        }.items():
            session.conf.set(f"spark.sql.catalog.lake{key}", value)

    [sql] = page.samples("sql", heading)
    [example] = page.samples("python", heading)
    found = run(example, root)

    assert session.sql(sql.replace("/lake/salesforce", str(root))).count() == COMPLETE
    assert (count(found["orders"]), count(found["complete"])) == (ORDERS, COMPLETE)
    assert "Size__c" in found["orders"].columns


@pytest.mark.full
def test_records_in_doubt_are_left_out(spark: Any, jars: Jars, tmp_path: Path, page: Page) -> None:
    """The page's query leaves out records with a resync entry, or all records of such an entity."""
    from airflow_provider_sfevents.spark.changes.tables import RESYNC_SQL, ROW_SQL
    from tests.harness.jars import or_skip

    or_skip(lambda: jars.delta)
    [sql] = page.samples("sql", "## Records, and what is in doubt")
    session, _ = by_path("delta", spark, tmp_path / "org").opened("Account")

    def write(name: str, columns: str, rows: list[dict[str, Any]]) -> None:
        frame = session.createDataFrame(rows, columns)
        frame.write.format("delta").mode("append").save(str(tmp_path / "org" / name))

    write(
        "Account",
        ROW_SQL,
        [{"record_id": one, "is_deleted": one == "003"} for one in ("001", "002", "003")],
    )
    write(
        "resync",
        RESYNC_SQL,
        [
            {"entity_name": "Account", "record_id": "001"},
            {"entity_name": "Contact", "record_id": "*"},
        ],
    )
    query = sql.replace("/lake/org", str(tmp_path / "org"))

    assert [row["record_id"] for row in session.sql(query).collect()] == ["002"]
    write("resync", RESYNC_SQL, [{"entity_name": "Account", "record_id": "*"}])
    assert session.sql(query).collect() == []
