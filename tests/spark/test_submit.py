"""The job runs from its file and the zip alone, in a Python without this project."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.submit import packaging
from airflow_provider_sfevents.submit.java import find_java
from airflow_provider_sfevents.submit.preflight import find_spark_submit, locale, quick_start

if TYPE_CHECKING:
    from tests.spark.conftest import Lake, Staging

pytestmark = pytest.mark.spark


# What PySpark itself wants for Arrow.
ARROW = ("pyarrow", "numpy", "pandas", "dateutil", "pytz", "six", "tzdata")


def bare_python(folder: Path, *wheels: str) -> dict[str, str]:
    """Environment of a Python without site-packages that sees these wheels only."""
    (folder / "wheels").mkdir(parents=True)
    for wheel in wheels:
        spec = importlib.util.find_spec(wheel)
        assert spec is not None
        assert spec.origin is not None
        place = Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)
        for path in (place, place.with_name(f"{wheel}.libs")):
            if path.exists():
                (folder / "wheels" / path.name).symlink_to(path)
    python = folder / "python"
    python.write_text(f'#!/bin/bash\nexec "{sys.executable}" -S "$@"\n')
    python.chmod(0o755)
    return {"PYSPARK_PYTHON": str(python), "PYTHONPATH": str(folder / "wheels")}


def submit(
    job: Path, arguments: list[str], env: dict[str, str], *options: str
) -> subprocess.CompletedProcess[str]:
    launcher = find_spark_submit(environ={"PATH": ""})
    home = {
        "JAVA_HOME": find_java().home,
        "PATH": os.environ["PATH"],
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    conf = {"spark.log.level": "WARN", **quick_start("local[2]", 0, {})}
    settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
    return subprocess.run(
        [
            launcher.binary,
            "--master",
            "local[2]",
            *settings,
            *options,
            str(job),
            *arguments,
        ],
        env={**launcher.env, **locale({}), **home, **env},
        cwd=job.parent,
        capture_output=True,
        text=True,
        check=False,
    )


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    """Return the lines that the job itself printed; Spark's go to the other stream."""
    return done.stdout.splitlines()


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A copy of the job, so that nothing of the project is beside it."""
    copy = tmp_path / "cluster" / "land.py"
    copy.parent.mkdir()
    copy.write_bytes(packaging.application().read_bytes())
    return copy


def test_the_job_and_its_zip_are_all_a_cluster_needs(
    staging: Staging, lake: Lake, tmp_path: Path, job: Path
) -> None:
    """The job and its zip land a batch, report it in a few lines, and exit with 0."""
    manifest = staging.write([staging.order(n) for n in range(10)] + [("order", b"")])
    env = bare_python(tmp_path / "env", *ARROW, "fastavro")
    zipped = packaging.py_files(tmp_path / "zip")

    done = submit(
        job, ["--manifest", manifest, "--table", str(lake.root)], env, "--py-files", str(zipped)
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert lake.ordinals("Order__e") == list(range(10))
    assert (staging.batch / layout.RECEIPT).exists()
    lines = said(done)
    assert [line.split()[1] for line in lines] == ["Decoding", "11", "Order__e:", "Batch"]
    assert "has no pyruhvro, which is many times faster." in lines[0]
    assert lines[1].startswith("sfevents: 11 rows in 2 files written ")
    assert lines[-1].endswith(f"10 rows in {lake.root}/Order__e, 1 in quarantine.")


def test_without_the_zip_the_job_says_so(tmp_path: Path, job: Path) -> None:
    """A job without its zip says so before it starts a Spark session."""
    done = submit(job, ["--manifest", "m", "--table", "t"], bare_python(tmp_path / "env"))

    assert done.returncode == 1
    assert said(done) == [
        "sfevents: No module named 'airflow_provider_sfevents'. Pass the package along with "
        "--py-files; "
        "airflow_provider_sfevents.submit.packaging makes it."
    ]
