"""Two Spark jobs, each with a JVM of its own, that commit to one table at the same moment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.tables.merging import merge_statements
from airflow_provider_sfevents.spark.tables.merging.conflicts import has_added, is_conflict
from tests.harness.jars import or_skip
from tests.harness.spark import environment
from tests.spark.lakes import Tables
from tests.spark.racing import race

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.harness.jars import Jars
    from tests.spark.conftest import Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(1200),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

FORMATS = ("delta", "iceberg")
LONGEST_WAIT = 300


@contextmanager
def other_racer(jobs: Path) -> Iterator[None]:
    """Start a process that lands the right-hand batches; it has ended at the end of the block."""
    command = [sys.executable, "-m", "tests.spark.racing", str(jobs), "right", "left"]
    log = jobs.with_name("right.log")
    with log.open("w") as said:
        racer = subprocess.Popen(
            command, env={**os.environ, **environment()}, stdout=said, stderr=subprocess.STDOUT
        )
    try:
        yield
        racer.wait(timeout=LONGEST_WAIT)
    except Exception as failure:
        failure.add_note(log.read_text()[-6000:])
        raise
    finally:
        racer.kill()
        racer.wait()
    assert racer.returncode == 0, log.read_text()[-6000:]


@pytest.mark.soak
def test_two_processes_that_commit_at_once_leave_exactly_one_copy(
    spark: Any, jars: Jars, tmp_path: Path, staging: Staging
) -> None:
    """Two processes that commit at once leave one copy of each row, in new and in old tables."""
    or_skip(lambda: [*jars.delta, *jars.iceberg])
    # One file of two rows: what is slow here is not what is proved.
    orders = [staging.order(number) for number in range(2)]
    twin = staging.write(orders)
    batches = [staging.write(orders, batch_number=number) for number in (2, 3)]
    lakes = [Tables(spark, str(tmp_path / kind), kind, tmp_path / kind) for kind in FORMATS]
    races = [
        {"left": left, "right": right, "table": lake.table, "table_format": lake.table_format}
        for lake in lakes
        for left, right in ((twin, twin), batches, (twin, twin))
    ]
    jobs = tmp_path / "jobs.json"
    jobs.write_text(json.dumps(races))

    with other_racer(jobs):
        race(spark, jobs, "left", "right")

    for lake in lakes:
        assert lake.events() == [(f"0f3c-{batch}", n) for batch in (1, 2, 3) for n in range(2)]
        assert sorted(lake.landed()) == ["0f3c-1", "0f3c-2", "0f3c-3"]
        assert not lake.under_way()


@pytest.mark.parametrize(
    ("table_format", "statement"),
    [
        ("delta", merge_statements.insert),
        ("delta", merge_statements.merge),
        ("iceberg", merge_statements.merge),
    ],
    indirect=["table_format"],
)
def test_what_a_format_says_of_a_commit_that_came_second_is_understood(
    tables: Tables, staging: Staging, statement: Callable[..., str]
) -> None:
    """Of two at once for one batch one fails by a conflict; run again, it changes nothing."""
    tables.land(staging.write([staging.order(1)]))
    there = tables.sql("select * from {}")
    (row,) = there.collect()
    columns = there.schema
    new = {**row.asDict(), "batch_id": "0f3c-2"}
    marker = tables.folder / "committed"
    failures: list[BaseException] = []

    def bring_in(*, once: Path | None = None) -> None:
        session, identifier = tables.opened()
        source = session.createDataFrame([tuple(new[name] for name in columns.names)], columns)
        if once is not None:
            source = source.mapInArrow(waiting(str(once)), columns)
        source.selectExpr("*", f"false {envelope.GONE}").createOrReplaceTempView("racing")
        dates = {str(row.event_date)}
        session.sql(statement(identifier, "racing", columns.names, "0f3c-2", dates))

    def attempt(*, once: Path | None = None) -> None:
        try:
            bring_in(once=once)
        except Exception as failure:  # noqa: BLE001 - looked at by the test's own thread
            failures.append(failure)

    thread = threading.Thread(target=attempt, kwargs={"once": marker})
    thread.start()
    began = marker.with_name("committed.began")
    while thread.is_alive() and not began.exists():
        thread.join(0.05)
    attempt()
    marker.touch()
    thread.join()

    assert [is_conflict(failure) for failure in failures] == [True]
    assert has_added(bring_in) == (statement is merge_statements.merge)
    assert tables.events() == [("0f3c-1", 0), ("0f3c-2", 0)]


def waiting(marker: str) -> Any:
    """Return the rows unchanged, but not before a file of this name exists.

    The file `<marker>.began` says that the wait has begun. A format may compute a source several
    times at once. Only one of these computations waits; if all did, they would occupy every core
    that the other MERGE needs.
    """

    def wait(batches: Any) -> Any:
        try:
            Path(f"{marker}.began").open("x").close()
        except FileExistsError:
            yield from batches
            return
        until = time.monotonic() + LONGEST_WAIT
        while not Path(marker).exists():
            if time.monotonic() > until:
                raise TimeoutError("the other one never committed")
            time.sleep(0.02)
        yield from batches

    return wait
