"""Run every benchmark in its own process, and name those beyond a limit.

`python -m benchmarks staging_memory` runs that one.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
BENCHMARKS = (
    *("fetch_throughput", "fetch_latency", "streaming_client"),
    *("staging_memory", "landing_dag", "landing"),
    *("landing_batches", "spark_connect", "connect_memory"),
    *("deliveries", "event_latency", "publish_to_row", "idle_waits"),
    *("decoding", "applying", "upkeep", "emulator", "page"),
)


def run(name: str) -> tuple[bool, float]:
    """Run a benchmark, which prints its figures; return if it is within limits, and its seconds."""
    print(f"== {name}", flush=True)
    started = time.perf_counter()
    ended = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{name}"],
        cwd=HERE.parent,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        check=False,
    )
    return ended.returncode == 0, time.perf_counter() - started


def main(chosen: list[str]) -> int:
    if unknown := set(chosen).difference(BENCHMARKS):
        print(f"there is no benchmark {min(unknown)!r}; there are {', '.join(BENCHMARKS)}")
        return 2
    results = {name: run(name) for name in chosen or BENCHMARKS}
    print("\n== all")
    for name, (within, seconds) in results.items():
        print(
            f"  {name:18} {seconds:6.0f} s  "
            f"{'within its limits' if within else 'NOT within its limits'}"
        )
    return 0 if all(within for within, _ in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
