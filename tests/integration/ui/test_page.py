"""The page *Salesforce events* in a real Airflow and a real browser."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from upath import UPath

from airflow_provider_sfevents.emulator import Emulator
from airflow_provider_sfevents.positions import history
from airflow_provider_sfevents.positions.record import Position, advance
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.positions.seen_allowance import SeenAllowance, allowance_key
from airflow_provider_sfevents.positions.watch_error import WatchError, watch_error_key
from airflow_provider_sfevents.staging import leases
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.manifest import Run
from tests.harness.airflow_runs import wait_until
from tests.harness.airflow_services import AirflowServices
from tests.harness.browser import chromium
from tests.integration.ui.change_consumer import (
    CONSUMER,
    SNAPSHOTS,
    confs,
    keep_changes,
)
from tests.integration.ui.dead_run import leave_lease
from tests.integration.ui.window import Window
from tests.unit.positions.building import ORG, TOPIC, batch_after, begun

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.harness.airflow_home import AirflowHome

pytestmark = [pytest.mark.airflow, pytest.mark.full]

AGES = {"orders": 1, "invoices": 40, "accounts": 60}
"""Hours since the last batch, by consumer."""

LEVELS = {"orders": "fresh", "invoices": "amber", "accounts": "red", CONSUMER: "fresh"}

BATCHES = {"orders": 145, "invoices": 5, "accounts": 5}
"""Batches that each consumer has committed."""


def keep(home: AirflowHome, consumer: str, hours: int) -> None:
    """Write a position with batches of a DAG that runs every half hour, and their history."""
    now = datetime.now(UTC) - timedelta(hours=hours)
    position = begun(consumer=consumer, owner=f"{consumer}.land")
    folder = area_of(home).topic(position.org_id, consumer, TOPIC)
    for number in range(count := BATCHES[consumer]):
        at = now - timedelta(minutes=30 * (count - 1 - number))
        by = Run(dag=consumer, run=f"run_{number}", task="land", try_number=1)
        manifest = batch_after(
            position,
            events=400 * (number % 5 + 1),
            begun_at=(at - timedelta(seconds=50)).isoformat(),
            created_at=(at - timedelta(seconds=20)).isoformat(),
            last_event_at=(at - timedelta(seconds=25)).isoformat(),
        )
        extra = {"in_memory": 3} if consumer == "accounts" else {}
        position = advance(position, manifest, at.isoformat(), by, extra_deliveries=extra)
        if history.is_due(position.batch_number):
            history.add(folder, position.epoch, position.recent)
    if consumer == "orders":
        position = replace(position, staging_id=store_dag(home, consumer).staging_id())
        leave_lease(folder.batch(position.epoch, position.batch_number + 1).folder, consumer)
    else:
        home.know_dag(consumer, is_paused=consumer == "accounts")
    home.set_variable(variable_key(consumer, TOPIC), position.to_json())


def area_of(home: AirflowHome) -> StagingArea:
    """The default staging area of this Airflow."""
    return StagingArea(UPath(home.folder / "sfevents"))


def store_dag(home: AirflowHome, consumer: str) -> StagingArea:
    """Write the DAG that fetches; returns its staging area."""
    file = home.dags / f"{consumer}.py"
    file.write_text(
        "from airflow.sdk import DAG\n"
        "from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator\n"
        f"with DAG({consumer!r}, schedule=None):\n"
        f"    SfEventsToSparkOperator(task_id='land', topic={TOPIC!r}, table='/lake/t')\n"
    )
    return area_of(home)


def watch(home: AirflowHome) -> None:
    """Write a DAG with a watcher that had an error, and let Airflow parse all DAGs."""
    (home.dags / "watched.py").write_text(
        "from airflow.sdk import DAG, Asset, AssetWatcher\n"
        "from airflow_provider_sfevents.triggers.sfevents import SfEventsWatchTrigger\n"
        f"trigger = SfEventsWatchTrigger({TOPIC!r}, 'orders')\n"
        "asset = Asset('orders', watchers=[AssetWatcher(name='orders', trigger=trigger)])\n"
        "dag = DAG('watched', schedule=[asset], is_paused_upon_creation=False)\n"
    )
    parsed = home.command("dags", "reserialize")
    assert parsed.returncode == 0, parsed.stdout
    error = WatchError(message="The topic is gone.", at=datetime.now(UTC).isoformat())
    home.set_variable(watch_error_key("orders", TOPIC), error.to_json())


@contextmanager
def api_server(home: AirflowHome, bus: Emulator) -> Iterator[AirflowServices]:
    """Run Airflow's API server below a path, with positions and a connection to the org."""
    for consumer, hours in AGES.items():
        keep(home, consumer, hours)
    keep_changes(home, area_of(home))
    seen = SeenAllowance(
        name="DailyDeliveredPlatformEvents",
        most=50_000,
        left=40_000,
        at=datetime.now(UTC).isoformat(),
    )
    home.set_variable(allowance_key(ORG), seen.to_json())
    watch(home)
    home.connect("sfevents_default", bus.connection())
    with AirflowServices.running(home, ("api-server",), path="/lake") as airflow:
        yield airflow


def kept(home: AirflowHome, consumer: str) -> Position:
    """Read a position from Airflow's database."""
    return Position.from_json(home.variable(variable_key(consumer, TOPIC)) or "", "here")


def choose_zone(window: Window, home: AirflowHome) -> None:
    """Choose a time zone as Airflow's menu keeps it; the page shows its times in it."""
    browser = window.browser
    browser.execute_script("localStorage.setItem('timezone', JSON.stringify('Asia/Kathmandu'))")
    browser.refresh()
    seen = SeenAllowance.from_json(home.variable(allowance_key(ORG)) or "")
    assert seen is not None
    at = datetime.fromisoformat(seen.at).astimezone(ZoneInfo("Asia/Kathmandu"))
    shown = f"Org {ORG}, as a task saw it at {at:%-m/%-d/%Y, %-I:%M:%S %p}:"
    wait_until(lambda: shown in str(window.texts("[data-allowance]")), shown)


def ask_org(window: Window) -> None:
    window.click("button", "Ask the org")
    wait_until(
        lambda: any("Not checked here" in text for text in window.texts("[data-findings]")),
        "the org's answer",
    )


def move_by_keyboard(window: Window, home: AirflowHome) -> None:
    """Leave the question twice, by its button and by a key; then answer it."""
    window.click("button", "Skip to new events")
    wait_until(lambda: "is skipped" in window.focused(), "what the action does")
    window.require_accessible()
    window.click("button", "Leave it")
    wait_until(lambda: window.focused() == "Skip to new events", "the button has the focus")
    window.press(Keys.ENTER)
    wait_until(lambda: "is skipped" in window.focused(), "what the action does")
    window.press(Keys.ESCAPE)
    wait_until(lambda: window.focused() == "Skip to new events", "the button has the focus")
    assert kept(home, "accounts").batch_number == 5
    window.press(Keys.ENTER)
    wait_until(lambda: "is skipped" in window.focused(), "what the action does")
    window.press(Keys.TAB, Keys.ENTER)
    wait_until(lambda: "continues at 'latest'" in window.focused(), "the action's answer")
    assert kept(home, "accounts").replay_id == "latest"


def release_by_keyboard(window: Window, home: AirflowHome) -> None:
    """Release the lease that a dead run left, without a mouse after the first click."""
    position = kept(home, "orders")
    batch = (
        area_of(home)
        .topic(position.org_id, "orders", TOPIC)
        .batch(position.epoch, position.batch_number + 1)
    )
    label = f"Release batch {batch.batch_id}"
    window.click("button", label)
    wait_until(lambda: "run run-2" in window.focused(), "what the action does")
    window.press(Keys.TAB, Keys.ENTER)
    wait_until(lambda: "is released" in window.focused(), "the action's answer")
    assert not leases.may_be_held(batch.folder)


def batch_numbers(window: Window) -> list[int]:
    """Numbers of the batches in the table."""
    cells = window.texts("table[aria-label=Batches] tbody td:first-child")
    return [int(one) for one in cells if one.isdigit()]


def older_by_keyboard(window: Window) -> None:
    """Load older batches until there are none: the focus stays on the button, then on the end."""
    assert batch_numbers(window) == list(range(145, 125, -1))
    window.click("button", "Older batches")
    wait_until(lambda: "100 older batches loaded." in window.texts("[data-older]"), "them")
    assert batch_numbers(window) == list(range(145, 25, -1))
    assert window.focused() == "Older batches"
    window.press(Keys.ENTER)
    end = "25 older batches loaded. The history begins here."
    wait_until(lambda: window.focused() == end, "the end of the history")
    assert batch_numbers(window) == list(range(145, 0, -1))
    [beginning] = window.texts("tr[data-beginning]")
    assert beginning.startswith("Epoch e1 began at earliest")
    assert "Older batches" not in window.texts("button")
    window.require_accessible()


def copy_command(window: Window, command: str) -> None:
    """Copy a command, and read it from the clipboard."""
    grant = {"permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    window.browser.execute_cdp_cmd("Browser.grantPermissions", grant)
    [button] = window.browser.find_elements(
        By.CSS_SELECTOR, "[aria-label='Copy: Forget the position']"
    )
    button.click()
    wait_until(lambda: "Copied." in window.texts("[data-command] [role=status]"), "the answer")
    copied = window.browser.execute_async_script(
        "navigator.clipboard.readText().then(arguments[0], error => arguments[0](String(error)))"
    )
    assert copied == command


def start_run(window: Window, label: str, dag: str) -> None:
    """Start a run by its button, without a mouse after the first click."""
    window.click("button", label)
    wait_until(lambda: f"A run of DAG {dag} is started" in window.focused(), "what it does")
    window.press(Keys.TAB, Keys.ENTER)
    wait_until(lambda: f"of DAG {dag} is queued." in window.focused(), "the action's answer")


def start_runs(window: Window, home: AirflowHome) -> None:
    """Flush the open transaction, and read an object again, by runs of their DAGs."""
    window.click("a", CONSUMER)
    start_run(window, "Flush the open transaction", CONSUMER)
    start_run(window, "Read Account again", SNAPSHOTS)
    assert confs(home, CONSUMER) == [{}]
    assert confs(home, SNAPSHOTS) == [{"entities": ["Account"]}]


def test_the_page_leads_from_the_menu_to_the_run(airflow_home: AirflowHome) -> None:
    """Below a base_url with a path, the menu leads to the overview, a consumer, and its run.

    A batch that a dead run holds is released; where the page cannot, it has the command.
    That command is copied, runs are started, and the history is loaded to its end.
    A fresh, an amber and a red position are told apart. The org is asked. The red one's trouble
    leads to what mends it, and it is moved by the keyboard, after a question that says what will
    happen. An accessibility checker finds nothing, in light and dark mode. Nothing is loaded from
    another host.
    """
    with (
        Emulator(sample=True) as bus,
        chromium() as browser,
        api_server(airflow_home, bus) as airflow,
    ):
        window = Window(browser=browser)
        origin = f"http://127.0.0.1:{airflow.port}"
        browser.get(f"{origin}/lake/")
        window.click("button", "Browse")
        window.click("a", "Salesforce events")
        wait_until(
            lambda: window.levels() == LEVELS,
            "the overview",
        )
        assert "The topic is gone." in str(window.texts("tr[data-watcher]"))
        choose_zone(window, airflow_home)
        ask_org(window)
        assert bus.deliveries() == 0
        window.require_accessible()
        window.click("a", "DAG accounts is paused, so no run fetches events.")
        wait_until(lambda: f"accounts on {TOPIC}" in window.texts("h1"), "the consumer's page")
        assert browser.current_url.startswith(f"{origin}/lake/plugin/salesforce_events?")
        assert window.focused() == f"accounts on {TOPIC}"
        [trouble] = window.texts("[data-trouble]")
        assert trouble.splitlines()[1:] == ["Unpause it.", "airflow dags unpause accounts"]
        move_by_keyboard(window, airflow_home)
        wait_until(lambda: any(window.texts("[data-command]")), "the commands")
        forget = f"airflow sfevents position forget accounts {TOPIC}"
        assert any(forget in text for text in window.texts("[data-command]"))
        copy_command(window, forget)
        browser.back()
        start_runs(window, airflow_home)
        browser.back()
        window.click("a", "orders")
        release_by_keyboard(window, airflow_home)
        older_by_keyboard(window)
        window.click("a", "run_3")
        wait_until(
            lambda: browser.current_url.startswith(f"{origin}/lake/dags/orders/runs/run_3"),
            "the run",
        )
        loaded = browser.execute_script(
            "return performance.getEntriesByType('resource').map(one => one.name)"
        )
        assert [url for url in loaded if not url.startswith((origin, "data:", "blob:"))] == []
