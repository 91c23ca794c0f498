"""Events that come twice: from the publisher, from the bus, in another epoch."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Receipt
from tests.harness.killed import Killed
from tests.spark import lakes

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.spark.conftest import Lake, Staging

    Land = Callable[..., Receipt]

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

LATER = "1a2b"
"""An epoch that was begun after the usual one."""


@pytest.fixture
def land_in(spark: Any, lake: Lake) -> Land:
    return partial(lakes.land_in, spark, lake)


def ids(lake: Lake, table: str = "Order__e") -> list[tuple[str, str]]:
    """Ids of the events in the table, with their batches."""
    return [(row[0], row[1]) for row in lake.rows(table, "event_id, batch_id")]


def orders(staging: Staging, *names: str) -> dict[str, Any]:
    """Events whose ids are these, and whose bytes follow from them."""
    return {"events": [staging.order(sum(name.encode())) for name in names], "ids": list(names)}


def test_events_delivered_again_in_another_epoch_land_once(
    staging: Staging, lake: Lake, land_in: Land
) -> None:
    """Events that are delivered again in another epoch land once, and each report counts them."""
    first = staging.write(**orders(staging, "a", "b", "c"))
    land_in(first)
    again = staging.write(**orders(staging, "b", "c", "d"), epoch=LATER)

    receipt = land_in(again)

    assert receipt.duplicates == 2
    assert receipt.tables == {f"{lake.root}/Order__e": 1}
    written = Receipt.from_json((staging.batch / layout.RECEIPT).read_text(), "receipt.json")
    assert written.duplicates == 2
    landed = lake.landed(f"{LATER}-1")
    assert (landed.duplicates, landed.rows) == (2, {"Order__e": 1})
    whole = [("a", "0f3c-1"), ("b", "0f3c-1"), ("c", "0f3c-1"), ("d", f"{LATER}-1")]
    assert ids(lake) == whole
    assert land_in(first).duplicates == 0
    assert land_in(again).duplicates == 2
    assert ids(lake) == whole


def test_a_publishers_retry_lands_once(staging: Staging, lake: Lake, land_in: Land) -> None:
    """Of two events with one id, even in two staged files, the earlier one stays."""
    receipt = land_in(staging.write(**orders(staging, "a", "b", "a", "c", "a"), per_part=2))

    assert (receipt.events, receipt.duplicates) == (5, 2)
    assert lake.ordinals("Order__e") == [0, 1, 3]
    assert [path.rpartition("/")[2] for path in lake.files()] == [
        "0f3c-1-00000.parquet",
        "0f3c-1-00001.parquet",
        "0f3c-1.parquet",
    ]


def test_change_events_without_an_id_are_known_by_what_they_say(
    staging: Staging, lake: Lake, land_in: Land
) -> None:
    """Change events without ids are one if transaction, number, entity, kind and records agree."""
    land_in(staging.write([staging.change(1, "001A"), staging.change(2, "001A")], ids=["", ""]))
    events = [
        staging.change(2, "001A"),
        staging.change(2, "001A", "001B"),
        staging.change(3, "001A"),
        staging.change(3, "001A"),
        staging.change(3, "001A", kind="UPDATE"),
    ]

    receipt = land_in(staging.write(events, ids=[""] * 5, batch_number=2))

    assert receipt.duplicates == 2
    numbers = "ChangeEventHeader.sequenceNumber, len(ChangeEventHeader.recordIds)"
    assert lake.rows("AccountChangeEvent", numbers) == [(1, 1), (2, 1), (2, 2), (3, 1), (3, 1)]


@pytest.mark.parametrize("anew", ["another", ""])
def test_a_change_delivered_again_under_another_id_lands_once(
    staging: Staging, lake: Lake, land_in: Land, anew: str
) -> None:
    """A change is known by what it says of itself, or by its id, also twice within a batch."""
    land_in(staging.write([staging.change(1, "001A")], ids=["first"]))
    events = [staging.change(1, "001A"), staging.change(2, "001A"), staging.change(2, "001A")]

    receipt = land_in(staging.write(events, ids=[anew, "second", "third"], batch_number=2))

    assert receipt.duplicates == 2
    assert lake.rows("AccountChangeEvent", "event_id") == [("first",), ("second",)]


def test_events_without_an_identity_are_never_left_out(
    staging: Staging, lake: Lake, land_in: Land
) -> None:
    """Events without an identity all land, because nothing proves that two of them are one."""
    land_in(staging.write([staging.order(1)] * 2, ids=["", ""]))

    receipt = land_in(staging.write([staging.order(1)], ids=[""], batch_number=2))

    assert receipt.duplicates == 0
    assert len(lake.ordinals("Order__e")) == 3


def test_an_id_of_another_org_or_topic_is_another_event(
    staging: Staging, lake: Lake, land_in: Land
) -> None:
    """Equal ids from different orgs or topics belong to different events in a shared table."""
    land_in(staging.write(**orders(staging, "a")))
    other_topic = staging.write(**orders(staging, "a"), batch_number=2, topic="/event/Other__chn")
    other_org = staging.write(**orders(staging, "a"), batch_number=3, org_id="00Dx0000000002ZEAW")

    assert [land_in(other_topic).duplicates, land_in(other_org).duplicates] == [0, 0]
    assert len(ids(lake)) == 3


def test_an_undecodable_event_is_in_quarantine_once(
    staging: Staging, lake: Lake, land_in: Land
) -> None:
    """An undecodable event is in quarantine once, even if it is delivered again two days later."""
    spoilt = ("order", b"")
    land_in(staging.write([spoilt, staging.order(1)], ids=["x", "a"]))
    later = replace(staging, received_at=staging.received_at + timedelta(days=2))

    receipt = land_in(later.write([spoilt, staging.order(2)], ids=["x", "b"], batch_number=2))

    assert (receipt.quarantined, receipt.duplicates) == (0, 1)
    assert ids(lake, "_quarantine") == [("x", "0f3c-1")]


@pytest.mark.full
def test_an_event_that_decodes_at_last_lands_although_its_copy_is_in_quarantine(
    staging: Staging, lake: Lake, land_in: Land
) -> None:
    """An event that decodes at last lands, although its copy is in quarantine."""
    land_in(staging.write([("order", b""), staging.order(1)], ids=["x", "a"]))

    receipt = land_in(
        staging.write([staging.order(0), ("order", b"")], ids=["x", "a"], batch_number=2)
    )

    assert (receipt.quarantined, receipt.duplicates) == (0, 1)
    assert ids(lake) == [("a", "0f3c-1"), ("x", "0f3c-2")]
    assert ids(lake, "_quarantine") == [("x", "0f3c-1")]


@pytest.mark.parametrize("overlaps", [True, False])
def test_a_batch_is_compared_with_the_dates_around_its_own(
    staging: Staging, lake: Lake, land_in: Land, overlaps: bool
) -> None:
    """A comparison reads only the batch's own dates, because a redelivered event keeps its date."""
    land_in(staging.write([staging.order(1, day=9), staging.order(2, day=1)], ids=["a", "b"]))
    events = [staging.order(1), staging.order(2)]
    manifest = staging.write(events, ids=["a", "b"], batch_number=2, overlaps=overlaps)

    assert land_in(manifest).duplicates == 1


def test_a_batch_of_nothing_but_duplicates_lands_as_nothing(
    staging: Staging, lake: Lake, land_in: Land
) -> None:
    """A batch of nothing but duplicates lands without a row, and every event is accounted for."""
    land_in(staging.write(**orders(staging, "a", "b")))
    before = lake.files()

    receipt = land_in(staging.write(**orders(staging, "a", "b"), epoch=LATER))

    assert (receipt.events, receipt.duplicates, receipt.tables) == (2, 2, {})
    assert lake.files() == sorted([*before, f"_batches/{LATER}-1.parquet"])


def test_what_lands_while_it_is_compared_is_compared_with_too(
    staging: Staging, lake: Lake, land_in: Land
) -> None:
    """A late job of an old epoch leaves out the events that the new epoch has landed meanwhile."""
    late = staging.write(**orders(staging, "a", "b"))
    other = staging.write(**orders(staging, "b", "c"), epoch=LATER)
    compared: list[str] = []

    def overtaken(name: str, about: str) -> None:
        if name == steps.LANDING_WRITE and not compared:
            compared.append(about)
            land_in(other)

    receipt = land_in(late, overtaken)

    assert receipt.duplicates == 1
    assert ids(lake) == [("a", "0f3c-1"), ("b", f"{LATER}-1"), ("c", f"{LATER}-1")]


@pytest.mark.full
def test_files_that_come_between_comparison_and_publishing_are_noticed(
    staging: Staging, lake: Lake, land_in: Land
) -> None:
    """A batch is compared again if another one lands while its duplicates are taken out."""
    land_in(staging.write(**orders(staging, "a")))
    other = staging.write(**orders(staging, "b"), epoch=LATER)
    late = staging.write(**orders(staging, "a", "b", "c"), batch_number=2)
    taken: list[str] = []

    def overtaken(name: str, _about: str) -> None:
        taken.append(name)
        if taken.count(steps.LANDING_WRITE) == 2 and name == steps.LANDING_WRITE:
            land_in(other)

    receipt = land_in(late, overtaken)

    assert taken.count(steps.LANDING_COMPARE) == 2
    assert receipt.duplicates == 2
    assert ids(lake) == [("a", "0f3c-1"), ("c", "0f3c-2"), ("b", f"{LATER}-1")]


@pytest.mark.full
@pytest.mark.parametrize(
    "step", [steps.LANDING_WRITE, steps.LANDING_COMPARE, steps.LANDING_MOVE, steps.LANDING_LANDED]
)
def test_killed_around_the_comparison_a_batch_with_duplicates_is_made_whole(
    staging: Staging, lake: Lake, land_in: Land, step: str
) -> None:
    """A batch with duplicates that is killed and landed again has each event once."""
    land_in(staging.write(**orders(staging, "a", "b")))
    again = staging.write(**orders(staging, "b", "c", "d", "c"), per_part=2, epoch=LATER)

    def kill(name: str, _about: str) -> None:
        if name == step:
            raise Killed

    with pytest.raises(Killed):
        land_in(again, kill)
    receipt = land_in(again)

    assert (receipt.tables, receipt.duplicates) == ({f"{lake.root}/Order__e": 2}, 2)
    other = f"{LATER}-1"
    assert ids(lake) == [("a", "0f3c-1"), ("b", "0f3c-1"), ("c", other), ("d", other)]


def test_a_foreign_file_in_a_table_does_not_count_as_landed(
    staging: Staging, lake: Lake, land_in: Land
) -> None:
    """A foreign file without a landing's columns is not compared: it names no org or topic."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = lake.root / "Order__e/event_date=2026-11-01"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"event_id": ["a"], "Number__c": ["N1"]}), folder / "old.parquet")

    assert land_in(staging.write(**orders(staging, "a"))).duplicates == 0
