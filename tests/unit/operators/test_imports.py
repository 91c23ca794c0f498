from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import airflow.providers.apache.spark.operators.spark_submit
before = set(sys.modules)
import airflow_provider_sfevents.operators.sfevents
print(*sorted(set(sys.modules) - before))
"""


def test_the_operators_load_little_beside_airflows_spark_operator() -> None:
    """Beside Airflow's Spark operator, only gRPC, protobuf and modules of this package are loaded.

    pyarrow is loaded by the functions that write and read files.
    """
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, check=True, timeout=300
    )
    loaded = done.stdout.splitlines()[-1].split()
    loaded.remove("airflow.sdk.bases.operatorlink")  # the base of the tasks' extra link
    packages = {name.partition(".")[0] for name in loaded} - sys.stdlib_module_names
    foreign = {name for name in packages if not name.startswith("_")}
    assert foreign <= {"airflow_provider_sfevents", "google", "grpc", "grpc_reflection"}
    assert not [name for name in loaded if name.startswith("airflow_provider_sfevents.emulator")]
