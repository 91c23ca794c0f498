"""`make ui`: Airflow in the browser, with an emulated Salesforce org that publishes events.

Everything is in `.ui/` (the environment variable UI_FOLDER names another folder) and is kept for
the next call: events, positions, tables, unpaused DAGs. `PORT` sets another port than 8080, `EVERY`
the seconds between two published events; with 0 the org publishes none by itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.org.sample_org import ORDERS
from airflow_provider_sfevents.exceptions import SfEventsError
from scripts.local_airflow import AIRFLOW, ROOT, LocalAirflow
from scripts.local_salesforce import LocalSalesforce, free_port
from scripts.local_spark_connect import LocalSparkConnect
from scripts.processes import CannotRunError, deferred_signals, end, start, stop_on_signals
from scripts.screen import Screen

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
SPARK_CONNECT, SERVER_SLOTS = "spark_connect_default", "server_slots"
READY_SECONDS = 120
STOP_SECONDS = 20
FIRST, THEN, EVERY_SECONDS = 50, 3, 10
# The bus keeps events for 72 hours, here as in Salesforce; after that a position's place is gone.
TOO_OLD_SECONDS = 72 * 3600


def main() -> int:
    """Run until Ctrl-C; 0 then, 1 with one line where something is in the way."""
    stop_on_signals()
    try:
        _run(_port(), _every())
    except (CannotRunError, EmulatorError, SfEventsError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped")
    return 0


def _port() -> int:
    text = os.environ.get("PORT", "8080")
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise CannotRunError(f"PORT={text!r} is not a port; give a number such as 8081")
    port = int(text)
    with socket.socket() as probe:
        # Else a port whose last connections are still winding down would seem taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise CannotRunError(
                f"port {port} cannot be had ({error.strerror}); choose another one: make ui "
                f"PORT={port + 1}"
            ) from error
    return port


def _every() -> int:
    text = os.environ.get("EVERY", str(EVERY_SECONDS))
    if not text.isdigit():
        raise CannotRunError(f"EVERY={text!r} is no number of seconds; give 10, or 0 for never")
    return int(text)


def _run(port: int, every: int) -> None:
    screen = Screen()
    place = Path(os.environ.get("UI_FOLDER") or ROOT / ".ui").resolve()
    airflow = LocalAirflow.create(place, _server_settings(port))
    _warn_if_old(screen, airflow)
    with contextlib.ExitStack() as stack:
        with screen.step("the Pub/Sub API of an emulated Salesforce org"):
            salesforce = stack.enter_context(
                LocalSalesforce.running(airflow.place, airflow.environment)
            )
            salesforce.go_on(FIRST)
        with screen.step("Airflow's database and connections"):
            airflow.migrate()
            airflow.connect(
                {
                    "sfevents_default": salesforce.connection(),
                    "spark_default": {"conn_type": "spark", "host": "local[2]"},
                }
            )
        if _fetch_jars(screen, airflow):
            _start_spark(screen, airflow, stack)
        processes = stack.enter_context(_components(airflow))
        with screen.step("Airflow"):
            _wait_ready(processes, airflow, port)
        screen.say(_what_is_where(airflow, salesforce, f"http://localhost:{port}", every))
        while True:
            for _ in range(every or EVERY_SECONDS):
                _keep_alive(processes, airflow, screen)
                time.sleep(1)
            if every:
                salesforce.go_on(THEN)


def _fetch_jars(screen: Screen, airflow: LocalAirflow) -> bool:
    """Have Delta's jars before a DAG needs them; returns whether they are there."""
    try:
        with screen.step("Delta's jars, for tables of format Delta (87 MB, once)"):
            airflow.fetch_lake_jars()
    except CannotRunError as error:
        screen.say(
            f"      {error}\n      Until then salesforce_records fails, and all other DAGs run "
            "spark-submit."
        )
        return False
    return True


def _start_spark(screen: Screen, airflow: LocalAirflow, stack: contextlib.ExitStack) -> None:
    """Start a Spark Connect server, which the event-driven DAG then uses."""
    with screen.step("a Spark Connect server"):
        server = stack.enter_context(
            LocalSparkConnect.running(
                airflow.place / "logs",
                airflow.environment,
                jars=airflow.environment["SFEVENTS_LAKE_JARS"].split(","),
            )
        )
        server.warm_up()
        airflow.connect({SPARK_CONNECT: server.connection()})
        airflow.command(
            *("pools", "set", SERVER_SLOTS, "2", "tasks at once on the Spark Connect server"),
            log="airflow-pools",
        )
    airflow.environment["SFEVENTS_SPARK_CONNECT"] = SPARK_CONNECT


def _what_is_where(airflow: LocalAirflow, salesforce: LocalSalesforce, url: str, every: int) -> str:
    things = (
        f"{THEN} events are published there every {every} s"
        if every
        else "nothing is published by itself"
    )
    return (
        f"\n  Airflow       {url}/dags\n"
        f"  Connection    {url}/connections (sfevents_default; its test button works)\n"
        f"  Salesforce    Pub/Sub API at {salesforce.endpoint}; {things}\n"
        f"  Positions     {url}/plugin/salesforce_events (Browse > Salesforce events)\n"
        f"  Tables        {airflow.lake}, such as\n"
        f"                {_short(airflow.lake / 'orders_event_driven' / 'Order__e')}\n"
        f"  Logs          {airflow.place / 'logs'}\n"
        "\nSwitch on salesforce_orders or press its trigger button; or switch on "
        "salesforce_orders_event_driven, which each order starts:\n"
        f'  {_command("sfevents-emulator")} publish {ORDERS} \'{{"Order_Number__c": "A-1"}}\' '
        f"--folder {_short(airflow.place / 'salesforce')}\n"
        "Ctrl-C stops everything."
    )


def _command(name: str) -> str:
    return _short(Path(sys.executable).parent / name)


def _short(path: Path) -> str:
    """As one types it in the checkout."""
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def _warn_if_old(screen: Screen, airflow: LocalAirflow) -> None:
    used = airflow.place / "told"
    if used.exists() and time.time() - used.stat().st_mtime > TOO_OLD_SECONDS:
        screen.say(
            "Last used more than 72 hours ago: the events of then have left the bus, and "
            "positions among them are refused, as "
            "Salesforce would. `make clean` begins anew."
        )


def _server_settings(port: int) -> dict[str, str]:
    return {
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__BASE_URL": f"http://localhost:{port}",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{port}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "2",
        # A watcher starts when its DAG's file is first parsed after the DAG was switched on.
        "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "10",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        # A laptop that also runs all of this may be busy for longer than the default of 10 s.
        "AIRFLOW__SFEVENTS__SPARK_CONNECT_CHECK_SECONDS": "60",
        # Else two fixed ports, which another Airflow on this machine may have.
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
    }


def _start(name: str, airflow: LocalAirflow) -> subprocess.Popen[bytes]:
    return start(
        (*AIRFLOW, name),
        log=airflow.log(name),
        environment=airflow.environment,
        folder=airflow.home,
    )


@contextlib.contextmanager
def _components(airflow: LocalAirflow) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Airflow's processes."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in COMPONENTS:
            with deferred_signals():
                processes[name] = _start(name, airflow)
        yield processes
    finally:
        print("\nStopping Airflow ...", flush=True)
        end(processes.values(), STOP_SECONDS)


def _wait_ready(
    processes: dict[str, subprocess.Popen[bytes]], airflow: LocalAirflow, port: int
) -> None:
    """Wait until every component says it is healthy.

    :raises CannotRunError: when one ends, or time is up.
    """
    began = time.monotonic()
    while not _healthy(port):
        _check_alive(processes, airflow)
        if time.monotonic() - began > READY_SECONDS:
            raise CannotRunError(
                f"Airflow was not ready after {READY_SECONDS} s; see {airflow.place / 'logs'}"
            )
        time.sleep(0.5)


def _healthy(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/api/v2/monitor/health", timeout=5) as answer:
            health = json.load(answer)
    except (URLError, OSError, ValueError):
        return False
    parts = ("metadatabase", "scheduler", "dag_processor", "triggerer")
    return all(health[part]["status"] == "healthy" for part in parts)


def _check_alive(processes: dict[str, subprocess.Popen[bytes]], airflow: LocalAirflow) -> None:
    for name, process in processes.items():
        if process.poll() is not None:
            raise CannotRunError(
                f"Airflow's {name} ended; its last words are in {airflow.log(name)}"
            )


def _keep_alive(
    processes: dict[str, subprocess.Popen[bytes]], airflow: LocalAirflow, screen: Screen
) -> None:
    """Restart services that were killed, as a deployment would.

    :raises CannotRunError: for a service that ended by itself, because it would end again.
    """
    for name, process in processes.items():
        if process.poll() == -signal.SIGKILL:
            end([process])  # and what it has left behind
            with deferred_signals():
                processes[name] = _start(name, airflow)
            screen.say(f"Airflow's {name} was killed, and is started again.")
    _check_alive(processes, airflow)


if __name__ == "__main__":
    sys.exit(main())
