"""An open transaction of 100,000 changes with 10 kB of text each, with 1 GB of driver memory.

It comes in ten batches, each cut by a bound, and an eleventh ends it, which releases all changes.
All runs in one JVM of 1 GB, tasks included. Its texts stay in the table `set_aside`: no batch may
write more bytes there than its own events need.

`python -m benchmarks.open_transaction 10000 iceberg` has fewer changes, or another format.
"""

from __future__ import annotations

import base64
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from airflow_provider_sfevents.spark.current_state.state_tables import SET_ASIDE
from benchmarks.applying import Bench
from benchmarks.landing import session, settings

if TYPE_CHECKING:
    from collections.abc import Mapping

CHANGES, BATCHES, TEXT_BYTES = 100_000, 10, 10_000
MEMORY = "1g"
TIMES_FIRST = 1.2


class OneTransaction(Bench):
    """Batches of one transaction whose changes have a long text; the last batch ends it."""

    key = "open"

    @override
    def transaction(self, number: int) -> str:
        return self.key

    @override
    def body(self, change_type: str, number: int) -> dict[str, Any]:
        raw = random.Random(number).randbytes(TEXT_BYTES * 3 // 4)  # noqa: S311 - not compressible
        return {"Text0__c": base64.b64encode(raw).decode()}

    def batch(self, changes: range, ended_by: str) -> Mapping[str, int]:
        """Stage, land and apply one batch; return what the apply counted."""
        manifest = self.stage([("CREATE", number) for number in changes], ended_by)
        return self.apply(manifest, new_entities="empty")

    def set_aside(self) -> dict[Path, int]:
        """Sizes of the data files of the table of events set aside."""
        folder = Path(self.current_state) / SET_ASIDE
        return {one: one.stat().st_size for one in folder.rglob("*.parquet")}


def expect(counts: Mapping[str, int], **expected: int) -> None:
    """Check what an apply counted.

    :raises SystemExit: it counted something else.
    """
    found = {name: counts[name] for name in expected}
    if found != expected:
        raise SystemExit(f"{found} instead of {expected}")


def main(changes: int = CHANGES, table_format: str = "delta") -> int:
    print(f"an open transaction of {changes:,} changes, {table_format}, driver memory {MEMORY}")
    conf = settings(table_format) | {"spark.driver.memory": MEMORY}
    each = changes // BATCHES
    written: list[float] = []
    with session(conf) as spark, tempfile.TemporaryDirectory() as made:
        heap = spark.sparkContext._jvm.Runtime.getRuntime().maxMemory() / 2**20  # noqa: SLF001
        bench = OneTransaction(spark, Path(made), changes, table_format)
        for first in range(0, each * BATCHES, each):
            began, before = time.monotonic(), bench.set_aside()
            counts = bench.batch(range(first, first + each), "max_events")
            new = [size for file, size in bench.set_aside().items() if file not in before]
            written.append(sum(new) / 2**20)
            print(
                f"  {counts['open_events']:9,} held back  {written[-1]:7.1f} MiB written to "
                f"{SET_ASIDE}  {time.monotonic() - began:5.0f} s",
                flush=True,
            )
            expect(counts, open_events=first + each, applied=0)
        began, bench.key = time.monotonic(), "next"
        counts = bench.batch(range(changes, changes + 1), "idle_seconds")
        expect(counts, open_events=0, applied=each * BATCHES + 1)
        print(f"  {counts['applied']:9,} applied  {time.monotonic() - began:5.0f} s")
    print(f"  heap of the JVM {heap:.0f} MiB")
    most = max(written) / written[0]
    print(f"  most written by a batch: {most:.2f} x the first (limit: {TIMES_FIRST} x)")
    return 0 if most <= TIMES_FIRST else 1


if __name__ == "__main__":
    said = sys.argv[1:]
    sys.exit(main(int(said[0]) if said else CHANGES, *said[1:]))
