"""The page in Airflow with 500 positions, each with seven days of hours and 20 batches.

Behind them are 50,000 task instances. It prints the seconds of the overview's answer, and of the
browser until the first rows are shown; the first request also imports the API.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from selenium.webdriver.common.by import By

from airflow_provider_sfevents.positions.record import advance
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.staging.manifest import Run
from tests.harness.airflow_home import AirflowHome, make_database
from tests.harness.airflow_runs import wait_until
from tests.harness.airflow_services import AirflowServices
from tests.harness.browser import chromium
from tests.unit.positions.building import TOPIC, batch_after, begun

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.positions.record import Position

POSITIONS = 500
RUNS = 100
"""Task instances of each position."""


def busy(consumer: str) -> Position:
    """Build a position with a batch in each of the last 168 hours."""
    position, now = begun(consumer=consumer, owner=f"{consumer}.land"), datetime.now(UTC)
    for hours in reversed(range(168)):
        at = (now - timedelta(hours=hours)).isoformat()
        run = f"scheduled__{at}"
        manifest = batch_after(position, events=9_999, last_event_at=at, created_at=at)
        position = advance(
            position, manifest, at, Run(dag=consumer, run=run, task="land", try_number=1)
        )
    return position


def fill(home: AirflowHome) -> int:
    """Write the positions and the task instances; return the size of a position."""
    text = busy("consumer_0").to_json()
    for number in range(POSITIONS):
        home.know_dag(f"consumer_{number}")
    now = datetime.now(UTC).isoformat(sep=" ").replace("+00:00", "")
    with sqlite3.connect(home.folder / "airflow.db") as database:
        for number in range(POSITIONS):
            name = f"consumer_{number}"
            record = text.replace("consumer_0", name)
            database.execute(
                "INSERT INTO variable (key, val, is_encrypted) VALUES (?, ?, 0)",
                (variable_key(name, TOPIC), record),
            )
            database.executemany(
                "INSERT INTO task_instance (id, dag_id, run_id, task_id, map_index, state,"
                " end_date, try_number, max_tries, pool, pool_slots, executor_config, updated_at,"
                " span_status) VALUES (?, ?, ?, 'land', -1, ?, ?, 1, 0, 'default_pool', 1, x'',"
                " ?, 'ended')",
                [
                    (f"{number:016x}{run:016x}", name, f"r{run}", _state(run), now, now)
                    for run in range(RUNS)
                ],
            )
    return len(text.encode())


def _state(run: int) -> str:
    return "failed" if run == 0 else "success"


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that a call took."""
    begun_at = time.perf_counter()
    work()
    return time.perf_counter() - begun_at


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "made").mkdir()
        home = AirflowHome.create(Path(folder) / "home", make_database(Path(folder) / "made"))
        size = fill(home)
        with chromium() as browser, AirflowServices.running(home, ("api-server",)) as airflow:
            url = f"http://127.0.0.1:{airflow.port}"
            answers = [timed(lambda: airflow.get("/sfevents/api/positions")) for _ in range(6)]
            browser.get(url)  # logs in, and loads Airflow's own code

            def show() -> None:
                browser.get(f"{url}/plugin/salesforce_events")
                wait_until(
                    lambda: browser.find_elements(By.CSS_SELECTOR, "tr[data-consumer]"),
                    "rows are shown",
                )

            shown = [timed(show) for _ in range(3)]
    print(
        f"  {POSITIONS} positions of {size} bytes, {POSITIONS * RUNS} task instances: the API"
        f" answers in {min(answers[1:]):.2f} s at best and {max(answers[1:]):.2f} s at worst (first"
        f" request {answers[0]:.2f} s); a reload of the page shows rows in {min(shown):.2f} s"
        f" at best and {max(shown):.2f} s at worst"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
