"""Kinds of addresses that a local Spark has no jars for."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from airflow_provider_sfevents.submit.store_jars import missing_store

if TYPE_CHECKING:
    from pathlib import Path

LOCAL = ["--master", "local[2]", "--name", "sfevents"]
TABLES = ["file:///staging", "s3a://lake/tables", "lake.salesforce"]


@pytest.fixture
def spark(tmp_path: Path) -> Path:
    """A Spark with one jar, which has no store."""
    (tmp_path / "jars").mkdir()
    (tmp_path / "conf").mkdir()
    with ZipFile(tmp_path / "jars" / "spark-core.jar", "w") as jar:
        jar.writestr("org/apache/spark/SparkContext.class", b"")
    return tmp_path


def test_a_spark_without_a_jar_for_an_address(spark: Path) -> None:
    """A kind of address without a jar is found; a folder, a name and another store are not."""
    assert missing_store(TABLES, LOCAL, spark, {}) == "s3a"
    assert missing_store(["/lake", "lake.salesforce", "memory://x"], LOCAL, spark, {}) == ""


@pytest.mark.parametrize("name", ["hadoop-aws-3.4.2.jar", "ours.jar"])
def test_a_jar_by_any_name_counts(spark: Path, name: str) -> None:
    """A jar counts by its usual name, or by the class that it holds."""
    with ZipFile(spark / "jars" / name, "w") as jar:
        jar.writestr("org/apache/hadoop/fs/s3a/S3AFileSystem.class", b"")
    assert missing_store(TABLES, LOCAL, spark, {}) == ""


@pytest.mark.parametrize(
    ("arguments", "environ"),
    [
        (["--packages", "org.apache.hadoop:hadoop-aws:3.4.2"], {}),
        (["--conf", "spark.driver.extraClassPath=/opt/s3.jar"], {}),
        (["--conf", "spark.hadoop.fs.s3a.impl=ours.Store"], {}),
        (["--properties-file", "/etc/spark.conf"], {}),
        ([], {"SPARK_CONF_DIR": "/etc/spark"}),
    ],
)
def test_a_spark_that_may_have_other_jars_is_left_to_its_job(
    spark: Path, arguments: list[str], environ: dict[str, str]
) -> None:
    """Nothing is refused if an argument or a variable may name jars."""
    assert missing_store(TABLES, [*LOCAL, *arguments], spark, environ) == ""


def test_a_spark_with_settings_of_its_own_is_left_to_its_job(spark: Path) -> None:
    """Nothing is refused if Spark has a file of settings, or is not known."""
    (spark / "conf" / "spark-defaults.conf").write_text("spark.jars /opt/s3.jar\n")
    assert missing_store(TABLES, LOCAL, spark, {}) == ""
    assert missing_store(TABLES, LOCAL, None, {}) == ""
