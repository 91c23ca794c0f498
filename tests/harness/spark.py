"""What Spark needs of this machine, for tests that start it."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def environment() -> dict[str, str]:
    """The variables to start `spark-submit` with: Java 17 or 21, the Python of the tests, loopback only."""
    from airflow_provider_sfevents.spark.java import java_home

    found = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    home = java_home()
    if home:
        found["JAVA_HOME"] = str(home)
    return found
