"""The page in Airflow with 500 positions, each with seven days of hours and 168 batches.

Twenty batches are in each position's record, and the history has the 74,000 before them. Behind the
positions are 50,000 task instances. It prints the seconds of the API's answers, and those of the
browser until the rows are shown; the first request also imports the API.
"""

from __future__ import annotations

import sqlite3
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from selenium.webdriver.common.by import By
from upath import UPath

from airflow_provider_sfevents.positions import history
from airflow_provider_sfevents.positions.record import advance
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.manifest import Run
from tests.harness.airflow_home import AirflowHome, make_database
from tests.harness.airflow_runs import wait_until
from tests.harness.airflow_services import AirflowServices
from tests.harness.browser import chromium
from tests.unit.positions.building import ORG, TOPIC, batch_after, begun

if TYPE_CHECKING:
    from collections.abc import Callable

    from selenium.webdriver import Chrome

    from airflow_provider_sfevents.positions.record import Position
    from airflow_provider_sfevents.staging.area import TopicFolder

POSITIONS = 500
RUNS = 100
"""Task instances of each position."""

BATCHES = 168
"""Batches of each position, one an hour."""

LIMIT = 1.0
"""Most seconds until a view is shown, in an Airflow that is open.

A reload also loads Airflow's own code, so it stands beside a reload of Airflow's start page.
"""

ROUNDS = 5

OVERVIEW_ROWS = "tr[data-consumer]"
BATCH_ROWS = "table[aria-label=Batches] tbody tr"

FIRST = "consumer_0"
_DAG = f"""
from airflow.sdk import DAG
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator

with DAG({FIRST!r}, schedule=None):
    SfEventsToSparkOperator(task_id="land", topic={TOPIC!r}, table="/lake/t")
"""


def busy(area: StagingArea) -> Position:
    """Build the first consumer's position with a batch in each of the last 168 hours.

    Its history is written as by its commits.
    """
    position, now = begun(consumer=FIRST, owner=f"{FIRST}.land"), datetime.now(UTC)
    position = replace(position, staging_id=area.staging_id())
    for hours in reversed(range(BATCHES)):
        at = (now - timedelta(hours=hours)).isoformat()
        manifest = batch_after(position, events=9_999, last_event_at=at, created_at=at)
        by = Run(dag=FIRST, run=f"scheduled__{at}", task="land", try_number=1)
        position = advance(position, manifest, at, by)
        if history.is_due(position.batch_number):
            history.add(folder_of(area, FIRST), position.epoch, position.recent)
    return position


def folder_of(area: StagingArea, consumer: str) -> TopicFolder:
    return area.topic(ORG, consumer, TOPIC)


def fill(home: AirflowHome) -> int:
    """Write positions, histories and task instances; return the size of a position."""
    area = StagingArea(UPath(home.folder / "sfevents"))
    position = busy(area)
    text, file = position.to_json(), layout.history_file(position.epoch, 1)
    lines = (folder_of(area, FIRST).folder / file).read_text()
    (home.dags / "first.py").write_text(_DAG)
    parsed = home.command("dags", "reserialize")
    if parsed.returncode:
        raise SystemExit(parsed.stdout)
    for number in range(1, POSITIONS):
        home.know_dag(f"consumer_{number}")
    now = datetime.now(UTC).isoformat(sep=" ").replace("+00:00", "")
    with sqlite3.connect(home.folder / "airflow.db") as database:
        for number in range(POSITIONS):
            name = f"consumer_{number}"
            place = folder_of(area, name).folder / file
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(lines.replace(FIRST, name))
            database.execute(
                "INSERT INTO variable (key, val, is_encrypted) VALUES (?, ?, 0)",
                (variable_key(name, TOPIC), text.replace(FIRST, name)),
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


def rows(browser: Chrome, selector: str, count: int) -> None:
    """Wait until the page has so many rows."""
    wait_until(
        lambda: len(browser.find_elements(By.CSS_SELECTOR, selector)) >= count, "rows are shown"
    )


def shown(browser: Chrome, url: str, selector: str, count: int) -> list[float]:
    """Return the seconds of loads of a page until it has so many rows."""

    def show() -> None:
        browser.get(url)
        rows(browser, selector, count)

    return [timed(show) for _ in range(ROUNDS)]


def opened(browser: Chrome) -> tuple[list[float], list[float]]:
    """Return the seconds of a consumer's page and of the overview, by links between the two."""

    def open_consumer() -> None:
        browser.find_element(By.LINK_TEXT, FIRST).click()
        rows(browser, BATCH_ROWS, 20)

    def open_overview() -> None:
        browser.back()
        rows(browser, OVERVIEW_ROWS, 50)

    both = [(timed(open_consumer), timed(open_overview)) for _ in range(ROUNDS)]
    return [one for one, _ in both], [one for _, one in both]


def older(browser: Chrome) -> None:
    """Load a hundred older batches on a consumer's page."""
    for button in browser.find_elements(By.CSS_SELECTOR, "button"):
        if button.text == "Older batches":
            button.click()
    rows(browser, BATCH_ROWS, 120)


def say(what: str, seconds: list[float], limit: float = 0.0) -> bool:
    """Print seconds; True: their median is within the limit."""
    median = statistics.median(seconds)
    told = f" (limit: {limit:g} s)" if limit else ""
    print(f"  {what:42} {median:5.2f} s, {min(seconds):.2f} to {max(seconds):.2f}{told}")
    return not limit or median <= limit


def main() -> int:
    query = f"consumer={FIRST}&topic={TOPIC}&org_id={ORG}"
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "made").mkdir()
        home = AirflowHome.create(Path(folder) / "home", make_database(Path(folder) / "made"))
        size = fill(home)
        with chromium() as browser, AirflowServices.running(home, ("api-server",)) as airflow:
            url = f"http://127.0.0.1:{airflow.port}"
            page = f"{url}/plugin/salesforce_events"

            def answers(path: str) -> list[float]:
                return [timed(lambda: airflow.get(f"/sfevents/api/{path}")) for _ in range(ROUNDS)]

            first = timed(lambda: airflow.get("/sfevents/api/positions"))
            found = {path: answers(path) for path in ("positions", f"position?{query}")}
            found["batches"] = answers(f"batches?{query}")
            browser.get(url)  # logs in, and loads Airflow's own code
            own = shown(browser, url, "button", 1)
            overview = shown(browser, page, OVERVIEW_ROWS, 50)
            views = opened(browser)
            consumer = shown(browser, f"{page}?{query}", BATCH_ROWS, 20)
            more = timed(lambda: older(browser))
    print(
        f"  {POSITIONS} positions of {size} bytes, {POSITIONS * RUNS} task instances, "
        f"{POSITIONS * (BATCHES - 20)} older batches; the API's first request: {first:.2f} s"
    )
    for (path, seconds), what in zip(
        found.items(), ("overview", "consumer", "100 older batches"), strict=True
    ):
        say(f"API /{path.partition('?')[0]}: {what}", seconds)
    say("browser: reload of Airflow's own start page", own)
    say("browser: reload of the overview", overview)
    say("browser: reload of a consumer's page", consumer)
    say("browser: Older batches", [more])
    within = [
        say("browser: first view of a consumer's page", views[0], LIMIT),
        say("browser: first view of the overview", views[1], LIMIT),
    ]
    return 0 if all(within) else 1


if __name__ == "__main__":
    sys.exit(main())
