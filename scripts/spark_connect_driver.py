"""Driver that only waits, for Spark Connect as a plugin in it.

It ends with the JVM, whose end closes its standard input. Run by `spark-submit`; see
`docs/how-to/spark-connect.md`.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

SparkSession.builder.getOrCreate()
sys.stdin.read()
