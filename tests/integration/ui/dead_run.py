"""The lease that a killed task leaves behind."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.staging import leases
from airflow_provider_sfevents.staging.lease_holder import LeaseHolder
from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from upath import UPath


def leave_lease(folder: UPath, dag: str) -> None:
    """Leave the lease of a batch, as a task on this machine that was killed does."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    run = Run(dag=dag, run="run-2", task="load", try_number=1)
    gone = replace(LeaseHolder.here(run, "2026-01-01"), pid=process.pid, process_start="1")
    leases.take(folder, gone).release()
    (folder / "leases" / "0001.released").unlink()
