"""The import of the client."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "airflow",
    "pyspark",
    "pandas",
    "pyarrow",
    "numpy",
    "grpc",
    "google",
    "httpx",
    "fastavro",
    "cryptography",
)
PROGRAM = f"""
import sys
import airflow_provider_sfevents.client
print(*sorted({{name.partition(".")[0] for name in sys.modules}} & {set(HEAVY)!r}))
"""


def test_the_import_loads_neither_airflow_nor_spark_nor_grpc() -> None:
    """`import airflow_provider_sfevents.client` loads no heavy library, so it is quick."""
    found = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert found.stdout.split() == []
