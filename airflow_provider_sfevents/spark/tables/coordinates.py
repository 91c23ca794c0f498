"""Maven coordinates of the jars of the table formats, for messages, documentation and tests.

They are for Spark 4.1, the version that this package is tested with; all formats have builds for
it.
"""

from __future__ import annotations

DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
ICEBERG = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.11.0"
