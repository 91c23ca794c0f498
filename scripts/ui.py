"""`make ui`: Airflow in the browser, with an emulated Salesforce org that things keep happening in.

Everything lives in `.ui/` and is there again the next time: events, positions, tables, the DAGs you switched on. `PORT`
chooses another port than 8080.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING
from urllib.error import URLError
from urllib.request import urlopen

from airflow_provider_sfevents.emulator import Emulator, EmulatorError
from airflow_provider_sfevents.emulator.sample import publish_sample
from scripts.local_airflow import AIRFLOW, ROOT, CannotRun, LocalAirflow

if TYPE_CHECKING:
    from collections.abc import Iterator

COMPONENTS = ("api-server", "scheduler", "dag-processor", "triggerer")
READY_SECONDS = 120
PUBLISH_EVERY_SECONDS = 10
STOP_SECONDS = 20


def main() -> int:
    """Run until Ctrl-C; 0 then, 1 with one line where something is in the way."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        _run(_port())
    except (CannotRun, EmulatorError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped")
    return 0


def _port() -> int:
    text = os.environ.get("PORT", "8080")
    if not text.isdigit() or not 0 < int(text) < 65536:
        raise CannotRun(f"PORT={text!r} is not a port; give a number such as 8081")
    port = int(text)
    with socket.socket() as probe:
        # Else a port whose last connections are still winding down would seem taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise CannotRun(
                f"port {port} cannot be had ({error.strerror}); choose another one: make ui PORT={port + 1}"
            ) from error
    return port


def _run(port: int) -> None:
    url = f"http://localhost:{port}"
    home = ROOT / ".ui"
    airflow = LocalAirflow.create(home, _server_settings(port))
    with Emulator(sample=True, folder=home / "emulator") as emulator:
        print("Setting up Airflow (about 15 seconds) ...", flush=True)
        airflow.prepare(
            {
                "sfevents_default": emulator.connection(),
                "spark_default": {"conn_type": "spark", "host": "local[2]"},
            }
        )
        publish_sample(emulator.org, 50)
        with _components(airflow) as processes, _happenings(emulator):
            _wait_ready(processes, airflow, port)
            print(
                f"\nAirflow          {url}/dags\n"
                f"Connection       {url}/connections (sfevents_default; its test button works)\n"
                f"Pub/Sub API      {emulator.endpoint}, an emulated org where something happens every {PUBLISH_EVERY_SECONDS} s\n"
                f"Tables           {airflow.lake}\n"
                f"Logs             {home / 'logs'}\n"
                "\nSwitch on salesforce_orders or press its trigger button. Stop everything with Ctrl-C.",
                flush=True,
            )
            _watch(processes, airflow)


def _server_settings(port: int) -> dict[str, str]:
    return {
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API__BASE_URL": f"http://localhost:{port}",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{port}/execution/",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "True",
        # Else two fixed ports, which another Airflow on this machine may have.
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(_free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(_free_port()),
    }


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextlib.contextmanager
def _components(airflow: LocalAirflow) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Airflow's processes; each in a session of its own, so that Ctrl-C reaches them from here, once and in order."""
    processes: dict[str, subprocess.Popen[bytes]] = {}
    try:
        for name in COMPONENTS:
            with airflow.log(name).open("wb") as log:
                processes[name] = subprocess.Popen(
                    [*AIRFLOW, name],
                    env=airflow.environment,
                    cwd=airflow.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        yield processes
    finally:
        _stop(processes)


def _stop(processes: dict[str, subprocess.Popen[bytes]]) -> None:
    """Ask all of them to end, and end what does not; a second Ctrl-C does not cut this short."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    print("\nStopping Airflow ...", flush=True)
    for process in processes.values():
        process.terminate()
    until = time.monotonic() + STOP_SECONDS
    for process in processes.values():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, until - time.monotonic()))
        # Also what it started and left behind, say a Spark job.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextlib.contextmanager
def _happenings(emulator: Emulator) -> Iterator[None]:
    """Events on the bus in the background."""
    stop = threading.Event()

    def publish() -> None:
        while not stop.wait(PUBLISH_EVERY_SECONDS):
            publish_sample(emulator.org, 3)

    thread = threading.Thread(target=publish, name="happenings")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _wait_ready(
    processes: dict[str, subprocess.Popen[bytes]], airflow: LocalAirflow, port: int
) -> None:
    """Wait until every component says it is healthy.

    :raises CannotRun: when one ends, or time is up.
    """
    began = time.monotonic()
    while not _healthy(port):
        _check_alive(processes, airflow)
        if time.monotonic() - began > READY_SECONDS:
            raise CannotRun(
                f"Airflow was not ready after {READY_SECONDS} s; see {airflow.folder / 'logs'}"
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


def _watch(processes: dict[str, subprocess.Popen[bytes]], airflow: LocalAirflow) -> None:
    while True:
        _check_alive(processes, airflow)
        time.sleep(1)


def _check_alive(processes: dict[str, subprocess.Popen[bytes]], airflow: LocalAirflow) -> None:
    for name, process in processes.items():
        if process.poll() is not None:
            raise CannotRun(f"Airflow's {name} ended; its last words are in {airflow.log(name)}")


if __name__ == "__main__":
    sys.exit(main())
