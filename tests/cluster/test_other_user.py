"""A cluster with executors of another user than the task's, on a disk that both see."""

from __future__ import annotations

import grp
import os
import pwd
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_sfevents.staging.storage import file_modes
from tests.cluster.conftest import ORDERS
from tests.cluster.in_process import InProcess
from tests.cluster.machines import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.cluster.conftest import Deployment
    from tests.cluster.machines import ExecutorPython

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(900),
]

OTHER = "nobody"
GROUP = grp.getgrgid(pwd.getpwnam(OTHER).pw_gid).gr_name

EVENTS = 3
JOB = f"""
import sys
from pyspark.sql import SparkSession
from airflow_provider_sfevents.spark import write_receipt

spark = SparkSession.builder.getOrCreate()
# Counts the staged rows on the executors, too.
write_receipt(spark, sys.argv[sys.argv.index("--manifest") + 1], tables={{"staged": {EVENTS}}})
spark.stop()
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, in a path of such folders."""
    folder = Path(tempfile.mkdtemp(prefix="sfevents-cluster-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def others(open_folder: Path, python: ExecutorPython) -> Iterator[Cluster]:
    """A cluster with a worker of the user `nobody`."""
    if os.geteuid():
        pytest.skip("only root may start a worker as another user")
    with Cluster(folder=open_folder / "cluster", python=python) as cluster:
        cluster.start_worker(user=OTHER)
        yield cluster


@pytest.mark.soak
def test_a_user_that_cannot_read_is_named_before_anything_is_fetched(
    others: Cluster,
    here: Deployment,
    open_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The refusal names user, file and setting; with the setting changed the next try lands."""
    staging = open_folder / "staging"
    (tmp_path / "job.py").write_text(JOB)
    task = InProcess(
        here=here,
        monkeypatch=monkeypatch,
        arguments={
            "staging": f"file://{staging}",
            "staging_shared": True,
            "application": str(tmp_path / "job.py"),
        },
    )
    here.publish(EVENTS)
    with pytest.raises(AirflowFailException) as raised:
        task.land(others.master_url)
    [probe] = (staging / "_probes").glob("*.txt")
    assert f"cannot read file://{probe} (user '{OTHER}': it sees no such file: a folder" in str(
        raised.value
    )
    assert "set [sfevents] staging_mode = group" in str(raised.value)
    assert here.bus.deliveries(ORDERS) == 0
    assert task.positions == {}

    monkeypatch.setenv("AIRFLOW__SFEVENTS__STAGING_MODE", "group")
    monkeypatch.setenv("AIRFLOW__SFEVENTS__STAGING_GROUP", GROUP)
    try:
        assert task.land(others.master_url)["tables"] == {"staged": EVENTS}
        here.publish(EVENTS)
        asked = {path: path.stat().st_mtime_ns for path in (staging / "_probes").iterdir()}
        assert task.land(others.master_url)["tables"] == {"staged": EVENTS}
        assert {path: path.stat().st_mtime_ns for path in asked} == asked, "it was asked again"
    finally:
        file_modes.use(file_modes.PRIVATE)
