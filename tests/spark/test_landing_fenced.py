"""Two forms of one batch: the one that has landed stays, and nothing of the other is left."""

from __future__ import annotations

import re
import shutil
import threading
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import NotLandedError
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Receipt
from tests.harness.killed import Killed, kill
from tests.spark.conftest import Staging, at
from tests.spark.lakes import land_watched

if TYPE_CHECKING:
    from tests.spark.conftest import Lake

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

OLDER = "2026-11-02T06:30:00+00:00"
NEWER = "2026-11-02T06:40:00.5+00:00"


@dataclass
class Forms:
    """One batch, staged twice, as by two workers that share no file system."""

    older: LandingOptions
    newer: LandingOptions


@pytest.fixture
def forms(staging: Staging, lake: Lake, tmp_path: Path) -> Forms:
    """Stage both forms; the newer one has another end and other files."""
    other = Staging(tmp_path / "other worker")
    older = staging.write(
        [staging.order(0), staging.order(1, day=1), staging.order(2)],
        per_part=1,
        created_at=OLDER,
    )
    newer = other.write([other.order(0), other.order(1, day=1)], created_at=NEWER)
    return Forms(
        older=LandingOptions(manifest_url=older, table=str(lake.root)),
        newer=LandingOptions(manifest_url=newer, table=str(lake.root)),
    )


OLDER_FILES = [
    "Order__e/event_date=2026-11-01/0f3c-1-00000.parquet",
    "Order__e/event_date=2026-11-01/0f3c-1-00002.parquet",
    "Order__e/event_date=2026-11-02/0f3c-1-00001.parquet",
    "_batches/0f3c-1.parquet",
]


def assert_older(lake: Lake) -> None:
    assert lake.files() == OLDER_FILES
    assert lake.ordinals("Order__e") == [0, 1, 2]
    assert lake.landed("0f3c-1").staged_at == datetime.fromisoformat(OLDER)


def assert_newer(lake: Lake) -> None:
    assert lake.files() == [
        "Order__e/event_date=2026-11-01/0f3c-1-00000.parquet",
        "Order__e/event_date=2026-11-02/0f3c-1-00000.parquet",
        "_batches/0f3c-1.parquet",
    ]
    assert lake.ordinals("Order__e") == [0, 1]
    said = lake.landed("0f3c-1")
    assert (said.staged_at, said.start) == (datetime.fromisoformat(NEWER), "earliest")


def fail() -> None:
    raise OSError("no space left")


def receipt_beside(order: LandingOptions) -> Receipt:
    """Read the receipt as the worker does."""
    path = Path(order.manifest_url).parent / layout.RECEIPT
    return Receipt.from_json(path.read_text(), str(path))


def assert_says(receipt: Receipt, order: LandingOptions) -> None:
    """Check that the receipt has this form's end and counts."""
    manifest = Manifest.from_json(Path(order.manifest_url).read_text(), order.manifest_url)
    assert (receipt.end, receipt.events) == (manifest.end, manifest.events)
    assert receipt.tables == {f"{order.table}/Order__e": manifest.events}
    assert (receipt.quarantined, receipt.duplicates) == (0, 0)


@pytest.mark.parametrize("first", ["older", "newer"])
def test_the_form_that_has_landed_stays(
    spark: Any, forms: Forms, lake: Lake, tmp_path: Path, first: str
) -> None:
    """The second form changes nothing, and its receipt has the end and counts of the landed one."""
    landed, other = (forms.older, forms.newer) if first == "older" else (forms.newer, forms.older)
    taken: list[str] = []
    assert_says(land(spark, landed), landed)
    before = lake.contents()

    receipt = land_watched(spark, other, lambda name, _about: taken.append(name))

    assert lake.contents() == before
    in_its_own_folder = [steps.LANDING_FOLDER, steps.LANDING_WRITE]
    assert taken == [*in_its_own_folder, steps.RECEIPT_NEXT, steps.RECEIPT_WRITTEN]
    assert receipt_beside(other) == receipt
    assert_says(receipt, landed)


def test_a_form_that_has_landed_lands_again_while_another_one_comes_and_goes(
    spark: Any, forms: Forms, lake: Lake
) -> None:
    """A form that has landed lands again, although a job was killed over a newer form."""

    def step(name: str, _about: str) -> None:
        if name == steps.LANDING_FOLDER:
            land(spark, forms.older)
        if name == steps.LANDING_WRITE:
            raise Killed

    with pytest.raises(Killed):
        land_watched(spark, forms.newer, step)

    assert_says(land(spark, forms.older), forms.older)

    assert_older(lake)


@pytest.mark.parametrize(
    ("step", "times"),
    [
        (steps.LANDING_WRITE, 1),
        (steps.LANDING_MOVE, 3),
        pytest.param(steps.LANDING_LANDED, 1, marks=pytest.mark.full),
    ],
)
def test_an_older_form_is_overtaken_at_any_step(
    spark: Any, forms: Forms, lake: Lake, step: str, times: int
) -> None:
    """A newer form that lands at any step of an older one stays, and both receipts are of it."""
    receipt = land_watched(spark, forms.older, at(step, lambda: land(spark, forms.newer), times))

    assert_newer(lake)
    assert receipt_beside(forms.older) == receipt
    assert_says(receipt, forms.newer)


@pytest.mark.parametrize(
    "step", [steps.LANDING_FOLDER, pytest.param(steps.LANDING_CLEAN, marks=pytest.mark.full)]
)
def test_a_newer_form_comes_while_the_older_is_about_to_be_done(
    spark: Any, forms: Forms, lake: Lake, step: str
) -> None:
    """A newer form gives way to an older one that has landed, before or after the newer began."""
    if step == steps.LANDING_FOLDER:
        receipt = land_watched(spark, forms.newer, at(step, lambda: land(spark, forms.older)))
    else:
        land_watched(spark, forms.older, at(step, lambda: land(spark, forms.newer)))
        receipt = receipt_beside(forms.newer)

    assert_older(lake)
    assert_says(receipt, forms.older)
    assert not (lake.root / "_landing").exists()


@pytest.mark.parametrize(
    "step",
    [
        steps.LANDING_MOVE,
        pytest.param(steps.LANDING_CLEAR, marks=pytest.mark.full),
        pytest.param(steps.LANDING_LANDED, marks=pytest.mark.full),
    ],
)
def test_an_older_form_wakes_up_while_the_newer_one_is_published(
    spark: Any, forms: Forms, lake: Lake, step: str
) -> None:
    """An older form sees that a newer one is under way, and its own folder is gone."""
    woken: list[str] = []

    def publish_newer() -> None:
        def wake() -> None:
            woken.append(step)
            with pytest.raises(NotLandedError, match="is being landed from a newer one"):
                land(spark, forms.older)

        land_watched(spark, forms.newer, at(step, wake))

    receipt = land_watched(spark, forms.older, at(steps.LANDING_MOVE, publish_newer, times=2))

    assert woken == [step]
    assert_newer(lake)
    assert_says(receipt, forms.newer)


def test_an_older_form_cannot_land_between_two_tries_of_the_newer(
    spark: Any, forms: Forms, lake: Lake
) -> None:
    """An older form does not land after a killed try of a newer one, whose folder it finds."""
    with pytest.raises(Killed):
        land_watched(spark, forms.newer, at(steps.LANDING_MOVE, kill, times=2))
    with pytest.raises(NotLandedError, match="is being landed from a newer one"):
        land(spark, forms.older)

    land(spark, forms.newer)

    assert_newer(lake)


@pytest.mark.parametrize(
    "step",
    [
        steps.LANDING_REMOVE,
        pytest.param(steps.LANDING_CLEAR, marks=pytest.mark.full),
        pytest.param(steps.LANDING_CLEAN, marks=pytest.mark.full),
    ],
)
def test_the_newer_form_is_killed_over_what_a_killed_older_one_left(
    spark: Any, forms: Forms, lake: Lake, step: str
) -> None:
    """A newer form that is killed over a killed older one's files lands whole at the next try."""
    with pytest.raises(Killed):
        land_watched(spark, forms.older, at(steps.LANDING_MOVE, kill, times=3))
    with pytest.raises(Killed):
        land_watched(spark, forms.newer, at(step, kill))

    land(spark, forms.newer)

    assert_newer(lake)


def test_what_an_older_form_left_that_gave_way_in_the_middle_goes(
    spark: Any, forms: Forms, lake: Lake
) -> None:
    """An older form moves files, sees the newer one, and removes its folder before the check."""
    moved, go = threading.Event(), threading.Event()
    failures: list[BaseException] = []

    def older() -> None:
        def wait() -> None:
            moved.set()
            assert go.wait(120)

        try:
            land_watched(spark, forms.older, at(steps.LANDING_LANDED, wait))
        except BaseException as failure:  # noqa: BLE001 - shown by the test's own thread
            failures.append(failure)

    thread = threading.Thread(target=older)
    thread.start()
    assert moved.wait(120)

    def let_it_see() -> None:
        go.set()
        thread.join(120)

    land_watched(spark, forms.newer, at(steps.LANDING_WRITE, let_it_see))

    assert ["being landed from a newer one" in str(failure) for failure in failures] == [True]
    assert_newer(lake)
    assert not (lake.root / "_landing").exists()


@pytest.mark.parametrize("again", [False, pytest.param(True, marks=pytest.mark.full)])
def test_what_a_failed_landing_left_goes_when_another_form_lands(
    spark: Any, forms: Forms, lake: Lake, again: bool
) -> None:
    """Files that a failed landing has moved are removed when another form lands."""
    with pytest.raises(OSError, match="no space left"):
        land_watched(spark, forms.older, at(steps.LANDING_MOVE, fail, times=3))
    if again:
        with pytest.raises(OSError, match="no space left"):
            land_watched(spark, forms.newer, at(steps.LANDING_MOVE, fail))

    land(spark, forms.newer)

    assert_newer(lake)
    assert not (lake.root / "_landing").exists()


def test_the_remedy_for_a_newer_form_that_is_lost_leaves_nothing_of_it(
    spark: Any, forms: Forms, lake: Lake
) -> None:
    """An older form lands after a lost newer form's folder is deleted, as the message says."""
    other = Staging(lake.root.parent / "third worker")
    events = [other.order(0), other.order(1, day=1), other.order(2, day=2)]
    lost = LandingOptions(manifest_url=other.write(events, created_at=NEWER), table=str(lake.root))
    with pytest.raises(Killed):
        land_watched(spark, lost, at(steps.LANDING_LANDED, kill))
    with pytest.raises(NotLandedError) as said:
        land(spark, forms.older)
    found = re.search(r"delete (.*) and run the task again", str(said.value))
    assert found
    shutil.rmtree(found[1])

    land(spark, forms.older)

    assert_older(lake)


def test_a_landing_that_fails_gives_way_to_another_form_that_landed_meanwhile(
    spark: Any, forms: Forms, lake: Lake
) -> None:
    """A landing that fails for any reason gives way to another form that has landed meanwhile."""

    def step(name: str, _about: str) -> None:
        if name == steps.LANDING_FOLDER:
            land(spark, forms.older)
        if name == steps.LANDING_COMPARE:
            raise OSError("no space left")

    receipt = land_watched(spark, forms.newer, step)

    assert_older(lake)
    assert_says(receipt, forms.older)
