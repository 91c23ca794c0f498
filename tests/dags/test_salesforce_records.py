"""Tables that follow an org: filled, changed and repaired, they equal the org."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pytest

from tests.harness import classes
from tests.harness.jars import Jars, or_skip

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.dags.conftest import Deploy, Deployment
    from tests.harness.airflow_home import DagTest

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.soak,
    pytest.mark.timeout(3600),
]

FOLLOW, RESOLVE = "salesforce_records", "salesforce_records_snapshot"
UPKEEP = "salesforce_records_upkeep"
SEEDED, WAITING = ("Account", "Contact"), "Opportunity"
TOPIC = "/data/ChangeEvents"


@dataclass
class Story:
    here: Deployment
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    seen: dict[str, dict[str, Any]] = field(default_factory=dict)

    def follow(self, name: str) -> None:
        """A run of the DAG that follows."""
        run = self._run(name, FOLLOW, self.here.next_date(), None)
        found = self.here.airflow.xcom(FOLLOW, run.run_id, "follow")
        assert isinstance(found, dict), run.log
        self.results[name] = found

    def resolve(self, name: str, **conf: Any) -> None:
        self._run(name, RESOLVE, self.here.next_date(), conf or None)

    def maintain(self, name: str) -> None:
        """A run of the DAG of upkeep."""
        run = self._run(name, UPKEEP, self.here.next_date(), None)
        found = self.here.airflow.xcom(UPKEEP, run.run_id, "maintain")
        assert isinstance(found, dict), run.log
        self.results[name] = found

    def _run(self, name: str, dag_id: str, on: str, conf: dict[str, Any] | None) -> DagTest:
        run = self.here.airflow.test_dag(dag_id, on, conf=conf, timeout_seconds=1200)
        assert run.state == "success", run.log
        self._look(name)
        return run

    def _look(self, name: str) -> None:
        self.seen[name] = {one: self.table(one) for one in (*SEEDED, WAITING, "resync")}

    def table(self, name: str) -> list[dict[str, Any]]:
        """Rows of a table, read without Spark."""
        from deltalake import DeltaTable

        folder = self.here.lake / "records" / name
        if not (folder / "_delta_log").exists():
            return []
        rows: list[dict[str, Any]] = DeltaTable(str(folder)).to_pyarrow_table().to_pylist()
        return rows


@pytest.fixture(scope="module")
def story(deploy: Deploy) -> Iterator[Story]:
    """Fill two tables from existing records, apply changes, and repair a marked record.

    Upkeep is part of it. A third table is never filled.
    """
    jars = ",".join(map(str, or_skip(lambda: Jars().delta)))
    with deploy(f"{FOLLOW}.py", f"{RESOLVE}.py", f"{UPKEEP}.py", sample=False) as here:
        # Spark's default partitions would cost more time than the few rows of these tables.
        # Not in a `spark-defaults.conf`: with its folder on the classpath, Java would not use the
        # shared classes.
        options = f"{classes.options()} -Dspark.sql.shuffle.partitions=2"
        here.set(SFEVENTS_LAKE_JARS=jars, **{classes.VARIABLE: options})
        bus, story = here.bus, Story(here)
        for one in (*SEEDED, WAITING):
            bus.define_object(one)
        records = begin(bus)
        story.follow("first")
        story.resolve("seeded", entities=list(SEEDED))
        change(bus, records)
        story.follow("changed")
        story.maintain("maintained")
        marked = [one for _, one in marks(story.seen["changed"]) if one != "*"]
        story.resolve("resolved", entities=["Account"], record_ids=marked)
        yield story


def begin(bus: Any) -> dict[str, str]:
    """Records by a name: some with every kind of value."""
    with bus.transaction() as changes:
        nord = changes.create(
            "Account",
            {
                "Name": "Nord",
                "BillingStreet": "Rua 1\nEsq.",
                "BillingCity": "Porto",
                "BillingCountry": "Portugal",
                "AnnualRevenue": 1.5e6,
                "NumberOfEmployees": 12,
                "Description": "Long, with a comma",
                "Phone": "+351 1",
            },
        )
        south = changes.create("Account", {"Name": "South", "Industry": "Energy"})
        west = changes.create("Account", {"Name": "West"})
        ann = changes.create(
            "Contact",
            {
                "FirstName": "Ann",
                "LastName": 'Lee "A"',
                "AccountId": nord,
                "Birthdate": "1990-02-28",
                "MailingCity": "Faro",
                "HasOptedOutOfEmail": True,
            },
        )
        ben = changes.create("Contact", {"LastName": "Ben", "AccountId": south})
        deal = changes.create(
            "Opportunity",
            {
                "Name": "Deal",
                "StageName": "Won",
                "CloseDate": "2026-03-31",
                "Amount": 12.25,
                "Probability": 50,
                "AccountId": nord,
            },
        )
    return {"nord": nord, "south": south, "west": west, "ann": ann, "ben": ben, "deal": deal}


def change(bus: Any, records: dict[str, str]) -> None:
    """Changes of every kind, two of which only a gap event tells."""
    nord, south, west = records["nord"], records["south"], records["west"]
    bus.update(nord, {"BillingCity": "Lisboa", "AnnualRevenue": 2e6, "Phone": None})
    bus.update(
        records["ann"], {"FirstName": None, "MailingCity": None, "Email": "ann@nord.example"}
    )
    with bus.transaction() as changes:
        new = changes.create("Account", {"Name": "East", "ShippingCity": "Evora"})
        changes.create("Contact", {"LastName": "Cy", "AccountId": new})
        changes.update(records["deal"], {"Amount": 99.5, "NextStep": "sign"})
    bus.update([south, nord], {"Rating": "Hot"})
    bus.delete(records["ben"])
    bus.delete(west)
    bus.undelete(west)
    bus.update(south, {"Website": "https://south.example", "Industry": None}, gap=True)
    bus.update(south, {"Fax": "1"})
    bus.create("Opportunity", {"Name": "Next", "StageName": "Open", "CloseDate": "2026-12-01"})


def of_the_org(here: Deployment, entity: str) -> dict[str, dict[str, Any]]:
    """Each record, as its change events would have it, by id."""
    return {
        one["Id"]: {name: value for name, value in one.items() if name != "Id"}
        for one in here.bus.records(entity, shape="event")
    }


def of_the_table(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Each row without what is ours, times as text."""
    ours = {"record_id", "is_deleted", "committed_at", "read_at"}
    ours |= {"applied_generation", "applied_batch_number", "applied_ordinal"}
    return {
        row["record_id"]: {name: _text(value) for name, value in row.items() if name not in ours}
        for row in rows
    }


def _text(value: Any) -> Any:
    match value:
        case datetime():
            return value.astimezone(UTC).isoformat(timespec="milliseconds")
        case date():
            return value.isoformat()
        case dict():
            return {name: _text(one) for name, one in value.items()}
    return value


def test_a_new_table_waits_for_its_seed(story: Story) -> None:
    """A new table shows no row before its first full read, because earlier changes are unknown.

    Each object is marked, and one that is never read stays so.
    """
    first, changed = story.seen["first"], story.seen["changed"]
    assert marks(first) == {(one, "*") for one in (*SEEDED, WAITING)}
    assert [first[one] for one in (*SEEDED, WAITING)] == [[], [], []]
    assert [story.results[name]["applied"]["kept"] for name in ("first", "changed")] == [6, 3]
    assert changed[WAITING] == []


def test_full_reads_fill_the_tables(story: Story) -> None:
    """All records of both objects, and the mark of the third object alone is left."""
    seeded = story.seen["seeded"]
    assert marks(seeded) == {(WAITING, "*")}
    assert [len(seeded[one]) for one in SEEDED] == [3, 2]


def marks(seen: dict[str, Any]) -> set[tuple[str, str]]:
    return {(row["entity_name"], row["record_id"]) for row in seen["resync"]}


def test_the_gap_marks_its_record_and_no_other(story: Story) -> None:
    """A gap event marks only its record, and all other records follow."""
    changed = story.seen["changed"]
    [mark] = [row for row in changed["resync"] if row["record_id"] != "*"]
    assert (mark["entity_name"], mark["resync_reasons"]) == ("Account", ["gap"])
    followed = of_the_table(changed["Account"])
    followed.pop(mark["record_id"])
    wanted = of_the_org(story.here, "Account")
    wanted.pop(mark["record_id"])
    assert followed == wanted
    assert story.results["changed"]["applied"]["resync_records"] == 1


def test_upkeep_changes_no_row(story: Story) -> None:
    """Upkeep leaves fewer files with the same rows, and nothing in the staging area."""
    found = story.results["maintained"]
    assert story.seen["maintained"] == story.seen["changed"]
    assert (found["dry_run"], found["skipped"]) == (False, [])
    assert found["files_after"] < found["files"]
    upkeep = story.here.airflow.folder / "sfevents/_upkeep"
    assert list(upkeep.iterdir()) == []


@pytest.mark.parametrize("entity", SEEDED)
def test_the_table_equals_the_org(story: Story, entity: str) -> None:
    """Every field of every record, after the marked one was read again; its mark is gone."""
    resolved = story.seen["resolved"]
    assert of_the_table(resolved[entity]) == of_the_org(story.here, entity)
    assert marks(resolved) == {(WAITING, "*")}


def test_reads_are_gone_when_they_are_used(story: Story) -> None:
    """Full records are personal data, which the staging area does not keep."""
    reads = story.here.airflow.folder / "sfevents/_reads"
    assert [path for path in reads.rglob("*") if path.is_file()] == []


def test_no_change_is_delivered_twice(story: Story) -> None:
    """Each published change was delivered once, over all runs."""
    assert story.here.bus.deliveries(TOPIC) == len(story.here.bus.events(TOPIC))
