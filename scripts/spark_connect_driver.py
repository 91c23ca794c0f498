"""Driver with a Spark Connect service that waits for clients.

The service starts when there is a session. Spark's plugin for it starts it before, and then a
request that comes too early makes the server refuse all later ones.

The driver ends with the JVM, whose end closes its standard input. Run by `spark-submit`; see
`docs/how-to/spark-connect.md`.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
# PySpark has no public way to its JVM.
service = spark._jvm.org.apache.spark.sql.connect.service.SparkConnectService  # noqa: SLF001
service.start(spark._jsc.sc())  # noqa: SLF001
sys.stdin.read()
