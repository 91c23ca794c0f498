"""`make demo`: events of an emulated Salesforce org into tables, then only the new events.

They pass through Airflow and Spark. Everything is in `.demo/` (the environment variable DEMO_FOLDER
names another folder). A further call continues at the stored position; `make clean` deletes it. The
exit code is 1 when a step failed, or when the landed events are not the published ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.metadata
import json
import os
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_sfevents import __version__
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.exceptions import SfEventsError
from airflow_provider_sfevents.submit.preflight import quick_start
from scripts import demo_tables
from scripts.local_airflow import ROOT, LocalAirflow
from scripts.local_salesforce import LocalSalesforce
from scripts.processes import CannotRunError, stop_on_signals
from scripts.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from airflow_provider_sfevents.emulator.org.sample_org import SampleEvent
    from airflow_provider_sfevents.positions.record import Position

FIRST, THEN = 60, 40
ORDERS = "/event/Order__e"
CHANGES = "/data/ChangeEvents"
SHOWN = {
    "Order_Number__c": "order",
    "Customer__c": "customer",
    "City__c": "city",
    "Status__c": "status",
    "Amount__c": "amount",
    "Delivery_Date__c": "delivery",
    "batch_number": "batch",
}
# The bus keeps events for 72 hours, here as in Salesforce; after that a position's place is gone.
TOO_OLD_SECONDS = 48 * 3600
UNREAD = "stay on the bus: no DAG of the demo reads this topic"
# What Airflow's log holds, and what goes on from there.
_PHASES = (
    ("Fetching ", "fetching, until nothing has come for 2 s"),
    ("is staged", "Spark starts"),
    ("Running Spark version", "Spark decodes and lands"),
    ("landed in", "the position moves"),
    ("DagRun Finished", "done"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One DAG of `dags/`: from a topic into tables."""

    dag: str
    topic: str
    tables: tuple[str, ...]


ORDERS_ROUTE = Route(dag="salesforce_orders", topic=ORDERS, tables=("Order__e",))
CHANGES_ROUTE = Route(
    dag="salesforce_changes_chain",
    topic=CHANGES,
    tables=("AccountChangeEvent", "ContactChangeEvent"),
)


def main() -> int:
    """Play it all; 0 when every event landed once, 1 with what is wrong, 130 after Ctrl-C."""
    stop_on_signals()
    screen = Screen()
    try:
        with _place(screen) as place:
            return Demo(place, screen).play()
    except (CannotRunError, EmulatorError, SfEventsError) as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{error.filename or 'the disk'}: {error.strerror}")
    except KeyboardInterrupt:
        print("\nstopped; `make demo` goes on from here", file=sys.stderr)
        return 130


class Demo:
    """The demo in a folder that is ours alone."""

    def __init__(self, place: Path, screen: Screen) -> None:
        self._screen = screen
        # Without a key the database holds plain text, which `demo_tables.position` can read.
        extra = {"AIRFLOW__CORE__FERNET_KEY": "", "SPARK_CONF_DIR": str(_spark_settings(place))}
        self._airflow = LocalAirflow.create(place, extra)
        self._unfinished = place / "unfinished"
        self._wrong: list[str] = []

    def play(self) -> int:
        began = time.monotonic()
        screen, airflow = self._screen, self._airflow
        screen.say(
            f"An emulated Salesforce, Airflow {_version('apache-airflow')} and Spark "
            f"{_version('pyspark')} on the Java in "
            f"{airflow.environment['JAVA_HOME']}."
        )
        screen.heading("Set up")
        with screen.step("Airflow's database"):
            self._set_up()
        with contextlib.ExitStack() as stack:
            with screen.step("the Pub/Sub API of an emulated Salesforce org"):
                salesforce = stack.enter_context(
                    LocalSalesforce.running(airflow.place, airflow.environment)
                )
            self._connect(salesforce)
            self._finish_last()
            screen.heading("Orders: fetch, land and commit in one operator")
            self._round(salesforce, FIRST, ORDERS_ROUTE)
            screen.heading("Again: only what came since")
            self._round(salesforce, THEN, ORDERS_ROUTE)
            screen.heading("Accounts and contacts: the same as a chain of three tasks")
            self._run(salesforce, CHANGES_ROUTE)
            published = salesforce.published()
        self._show_tables()
        self._account_for(published)
        return self._end(time.monotonic() - began)

    def _set_up(self) -> None:
        made = self._airflow.place / "made-from"
        if not made.exists():
            self._airflow.database.unlink(missing_ok=True)  # of a call that was stopped here
            self._airflow.migrate()
        made.write_text(_made_from())

    def _connect(self, salesforce: LocalSalesforce) -> None:
        self._airflow.environment["AIRFLOW_CONN_SFEVENTS_DEFAULT"] = json.dumps(
            salesforce.connection()
        )
        self._airflow.environment["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps(
            {"conn_type": "spark", "host": "local[2]"}
        )

    def _round(self, salesforce: LocalSalesforce, count: int, route: Route) -> None:
        with self._screen.step(f"{count} events published"):
            happened = salesforce.go_on(count)
        self._screen.say(f"      {_summary(happened)}")
        self._run(salesforce, route)

    def _run(self, salesforce: LocalSalesforce, route: Route) -> None:
        """Run a DAG; what it fetched, landed and committed must be what waited on the bus."""
        airflow = self._airflow
        before = demo_tables.position(airflow.database, route.dag, route.topic)
        rows, paid = self._rows(route), salesforce.delivered(route.topic)
        waiting = salesforce.waiting(route.topic, before.replay_id if before else "")
        self._dag(route.dag, f"{route.dag}-{before.batch_number + 1 if before else 1}")
        after = demo_tables.position(airflow.database, route.dag, route.topic)
        landed, paid = self._rows(route) - rows, salesforce.delivered(route.topic) - paid
        self._screen.say(
            f"      events in {waiting}, delivered (billed) {paid}, rows landed {landed}\n"
            f"      position: {_place_of(before)} -> {_place_of(after)}"
        )
        if not waiting == paid == landed:
            self._wrong.append(
                f"{route.dag}: {waiting} events waited, {paid} were delivered, {landed} rows landed"
            )

    def _dag(self, dag: str, log: str) -> None:
        self._unfinished.write_text(dag)
        with self._screen.step(f"airflow dags test {dag}", lambda: _phase(self._airflow.log(log))):
            self._airflow.command("dags", "test", dag, _now(), log=log)
        self._unfinished.unlink()

    def _finish_last(self) -> None:
        """Finish the batch of a stopped run first, so that the next run's figures are its own."""
        if self._unfinished.exists():
            self._screen.heading("The last demo was stopped in a run: first what that one left")
            self._dag(dag := self._unfinished.read_text(), f"{dag}-finish")

    def _rows(self, route: Route) -> int:
        return sum(demo_tables.count(self._airflow.lake, name).rows for name in route.tables)

    def _show_tables(self) -> None:
        self._screen.heading("In the tables now")
        lake = self._airflow.lake
        counts = {name: demo_tables.count(lake, name) for name in demo_tables.tables(lake)}
        self._screen.table(
            [
                ("table", "rows", "different events"),
                *((name, one.rows, one.events) for name, one in counts.items()),
            ]
        )
        self._wrong += [
            f"{name} has {one.rows} rows of {one.events} events"
            for name, one in counts.items()
            if one.rows != one.events
        ]
        self._screen.heading("The last orders")
        rows = demo_tables.newest(lake, "Order__e", list(SHOWN), 5)
        self._screen.table([tuple(SHOWN.values()), *rows])

    def _account_for(self, published: Mapping[str, int]) -> None:
        """Show where each published event is: in a table, or on a topic that no demo DAG reads."""
        self._screen.heading("Every event that was published")
        lake = self._airflow.lake
        read = {name for route in (ORDERS_ROUTE, CHANGES_ROUTE) for name in route.tables}
        rows: list[tuple[object, ...]] = [("published", "events", "rows", "")]
        landed_in_all = 0
        for topic, events in published.items():
            name = topic.rpartition("/")[2]
            landed = demo_tables.count(lake, name).rows
            landed_in_all += landed
            rows.append((topic, events, landed, f"table {name}" if name in read else UNREAD))
            if landed != (events if name in read else 0):
                self._wrong.append(f"{topic}: {events} events were published, {landed} rows landed")
        rows.append(("in all", sum(published.values()), landed_in_all, ""))
        self._screen.table(rows)

    def _end(self, seconds: float) -> int:
        for wrong in self._wrong:
            print(f"error: {wrong}", file=sys.stderr)
        if self._wrong:
            return 1
        place = self._airflow.place
        self._screen.say(
            "\nEvery event of the topics that a DAG here reads landed once and was delivered "
            f"once. {seconds:.0f} s in all.\n"
        )
        self._screen.table(
            [
                (f"{_short(place)}/lake", "the tables, for anything that reads Parquet"),
                (
                    f"{_short(place)}/airflow/sfevents",
                    "the batches as they were staged, with manifests and receipts",
                ),
                (f"{_short(place)}/logs", "all that Airflow and Spark said"),
                (
                    "make demo",
                    "again: goes on from these positions (make clean: from the beginning)",
                ),
                ("make ui", "the same DAGs in the browser"),
                ("make test", "the proof"),
            ],
            indent="  ",
        )
        return 0


@contextlib.contextmanager
def _place(screen: Screen) -> Iterator[Path]:
    """The demo's folder, for one demo at a time; emptied where a new beginning is due."""
    place = Path(os.environ.get("DEMO_FOLDER") or ROOT / ".demo").resolve()
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = (place / "lock").open("w")
    except OSError as error:
        raise CannotRunError(f"cannot write to {place}: {error.strerror}") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise CannotRunError(
                f"another `make demo` is at work in {place}; wait for it"
            ) from error
        if why := _stale(place / "made-from"):
            screen.say(f"Beginning anew: {why}.")
            for entry in place.iterdir():
                if entry.name != "lock":
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
        yield place


def _spark_settings(place: Path) -> Path:
    """Folder of Spark's settings: those of our operator for few events, also for the chain."""
    folder = place / "spark"
    folder.mkdir(exist_ok=True)
    settings = quick_start("local[2]", 0, {})
    lines = [f"{key} {value}\n" for key, value in settings.items()]
    (folder / "spark-defaults.conf").write_text("".join(lines))
    return folder


def _stale(made: Path) -> str:
    """Reason why the demo cannot continue in its folder; empty if it can, or if there is none."""
    if not made.exists():
        return ""
    if made.read_text() != _made_from():
        return "the last demo was made by other versions"
    if time.time() - made.stat().st_mtime > TOO_OLD_SECONDS:
        return "the bus keeps events for 72 hours, and the last demo is nearly as old"
    return ""


def _made_from() -> str:
    names = ("apache-airflow", "pyspark")
    return " ".join([__version__, *(_version(name) for name in names), str(ROOT)])


def _version(name: str) -> str:
    return importlib.metadata.version(name)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _phase(log: Path) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    return next((words for mark, words in reversed(_PHASES) if mark in text), "Airflow starts")


def _summary(happened: Sequence[SampleEvent]) -> str:
    counts = Counter(one.topic for one in happened)
    return ", ".join(f"{count} on {topic}" for topic, count in counts.most_common())


def _place_of(position: Position | None) -> str:
    return (
        f"batch {position.batch_number}, replay id {position.replay_id}" if position else "none yet"
    )


def _short(path: Path) -> str:
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def _failed(why: str) -> int:
    print(f"error: {why}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
