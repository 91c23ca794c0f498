"""A custom Spark job on a staged batch, started by `salesforce_orders_own_job.py`.

It reads orders, adds a column, and reports what has landed. A custom job must write each event of
the batch once, be repeatable, and write the receipt last. Until the receipt exists the position
does not move, and the next try runs the job again.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENT_TYPE = "Order__e"
LARGE = 1000.0


def sized(orders: DataFrame) -> DataFrame:
    """Add a column with the size of each order."""
    from pyspark.sql import functions as F  # noqa: N812

    size = F.when(F.col("Amount__c") >= LARGE, "large").otherwise("small")
    return orders.withColumn("size", size)


def run(spark: SparkSession, manifest: str, table: str) -> None:
    """Write the orders of a batch to one table and undecodable events to another, then the receipt.

    :param table: URL of the folder with the tables.
    """
    from airflow_provider_sfevents.spark import (
        event_types,
        read_batch,
        read_undecodable,
        write_receipt,
    )

    batch_id = spark.read.json(manifest, multiLine=True).first().batch_id
    counts: dict[str, int] = {}
    for name in event_types(spark, manifest):
        orders = read_batch(spark, manifest, name)
        rows = sized(orders) if name == EVENT_TYPE else orders
        counts[f"{table}/{name}"] = replace(rows, f"{table}/{name}", batch_id)
    bad = replace(read_undecodable(spark, manifest), f"{table}/bad", batch_id)
    write_receipt(spark, manifest, tables=counts, quarantined=bad)


def replace(rows: DataFrame, table: str, batch_id: str) -> int:
    """Replace the rows that an earlier try wrote of the same batch, and count the new ones.

    Here each batch has a folder. In a Delta or Iceberg table: delete by `batch_id` and append, or
    use one MERGE.
    """
    rows.drop("batch_id").write.mode("overwrite").parquet(f"{table}/batch_id={batch_id}")
    return int(rows.count())


def main() -> None:
    """The operator passes `--manifest`, before the arguments the DAG gives."""
    from pyspark.sql import SparkSession

    parser = argparse.ArgumentParser()
    parser.add_argument("--manifest", required=True)
    parser.add_argument("--table", required=True)
    options = parser.parse_args()
    spark = SparkSession.builder.getOrCreate()
    run(spark, options.manifest, options.table)
    spark.stop()


if __name__ == "__main__":
    main()
