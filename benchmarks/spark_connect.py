"""Many landings over one Spark Connect server, each in a session of its own as tasks have them.

Printed: the calls of a landing, and the server's processes and memory after the first ten landings
and after all. `python -m benchmarks.spark_connect 1000 delta` is `make bench-connect`.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil  # type: ignore[import-untyped]

from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.spark.tables import naming
from airflow_provider_sfevents.submit import connect_checks
from airflow_provider_sfevents.submit.connect_session import open_session
from benchmarks.landing import seconds, stage
from scripts.local_spark_connect import LocalSparkConnect
from tests.harness.jars import Jars
from tests.harness.spark import environment

if TYPE_CHECKING:
    from collections.abc import Sequence

LANDINGS, EVENTS, FIRST = 100, 100, 10
MOST_CALLS, TIMES_FIRST = 60, 1.2
SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Processes of a server, and their memory without counting shared pages twice."""

    processes: int
    mib: float

    @classmethod
    def of(cls, pid: int) -> Usage:
        server = psutil.Process(pid)
        all_of_it = [server, *server.children(recursive=True)]
        used = [one.memory_full_info().pss for one in all_of_it if one.is_running()]
        return cls(processes=len(used), mib=sum(used) / 2**20)


def landing(url: str, manifest: str, table: Path, table_format: str) -> int:
    """Check and land as a task does; returns the calls of both."""
    with open_session(url, seconds=SECONDS) as session:
        python = connect_checks.look_at_python(session.spark, session.url)
        connect_checks.check_python(python.version, python, session.url)
        land(
            session.spark,
            LandingOptions(manifest_url=manifest, table=str(table), table_format=table_format),
        )
        return session.calls


def measure(
    landings: int, table_format: str
) -> tuple[Sequence[float], Sequence[int], Usage, Usage]:
    """Seconds and calls of the landings, and the server's usage after ten and after all."""
    jars = [str(one) for one in Jars().delta] if table_format == naming.DELTA else []
    took, calls, first = [], list[int](), Usage(processes=0, mib=0.0)
    environ = {**os.environ, **environment(), "PYTHONPATH": str(Path(__file__).parents[1])}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        with LocalSparkConnect.running(folder, environ, jars=jars) as server:
            for number in range(1, landings + 1):
                manifest = stage(folder / "staging" / str(number), EVENTS, number)

                def land_it(manifest: str = manifest) -> None:
                    calls.append(landing(server.url, manifest, folder / "lake", table_format))

                took.append(seconds(land_it))
                if number == min(FIRST, landings):
                    first = Usage.of(server.process.pid)
                if number % FIRST == 0:
                    now = Usage.of(server.process.pid)
                    print(
                        f"  {number:5}  {took[-1]:5.1f} s  {calls[-1]:3} calls  "
                        f"{now.processes} processes  {now.mib:6.0f} MiB",
                        flush=True,
                    )
            return took, calls, first, Usage.of(server.process.pid)


def main(landings: int = LANDINGS, table_format: str = naming.DELTA) -> int:
    print(f"{landings} landings of {EVENTS} events as {table_format} over one server, local[2]")
    took, calls, first, last = measure(landings, table_format)
    print(f"  a landing, median  {statistics.median(took):5.1f} s")
    print(f"  calls, most        {max(calls):5}  (limit: {MOST_CALLS})")
    for name, begun, ended in (
        ("processes", first.processes, last.processes),
        ("memory, MiB", first.mib, last.mib),
    ):
        print(
            f"  {name:18} {begun:5.0f} after {FIRST}, {ended:5.0f} after {landings}  "
            f"{ended / begun:.2f} x (limit: {TIMES_FIRST} x)"
        )
    within = last.processes <= first.processes * TIMES_FIRST and last.mib <= first.mib * TIMES_FIRST
    return 0 if within and max(calls) <= MOST_CALLS else 1


if __name__ == "__main__":
    said = sys.argv[1:]
    sys.exit(main(int(said[0]) if said else LANDINGS, *said[1:]))
