"""Landings that are killed at any step, and twins that land one batch at the same time."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark import read_table
from airflow_provider_sfevents.spark.landing.land_batch import land
from airflow_provider_sfevents.spark.landing.landing_options import LandingOptions
from airflow_provider_sfevents.staging import layout
from tests.harness.killed import Killed
from tests.spark.lakes import land_watched

if TYPE_CHECKING:
    from tests.harness.step_hooks import OnStep
    from tests.spark.conftest import Lake, Staging

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

STEPS = [
    "landing-folder 0f3c-1",
    "landing-write 0f3c-1",
    "landing-compare 0f3c-1",
    "landing-move Order__e/event_date=2026-11-01/0f3c-1-00000.parquet",
    "landing-move Order__e/event_date=2026-11-02/0f3c-1-00000.parquet",
    "landing-move Order__e/event_date=2026-11-02/0f3c-1-00001.parquet",
    "landing-move _quarantine/event_date=2026-11-02/0f3c-1-00001.parquet",
    "landing-landed 0f3c-1",
    "landing-clean 0f3c-1",
    "receipt-next 0f3c-1",
    "receipt-written 0f3c-1",
]
WHOLE = [
    "Order__e/event_date=2026-11-01/0f3c-1-00000.parquet",
    "Order__e/event_date=2026-11-02/0f3c-1-00000.parquet",
    "Order__e/event_date=2026-11-02/0f3c-1-00001.parquet",
    "_batches/0f3c-1.parquet",
    "_quarantine/event_date=2026-11-02/0f3c-1-00001.parquet",
]


@pytest.fixture
def manifest(staging: Staging) -> str:
    return staging.write(
        [staging.order(0), staging.order(1, day=1), staging.order(2, day=1), ("order", b"")],
        per_part=2,
    )


@pytest.fixture
def order(manifest: str, lake: Lake) -> LandingOptions:
    return LandingOptions(manifest_url=manifest, table=str(lake.root))


def kill_at(step_name: str) -> OnStep:
    def step(name: str, about: str) -> None:
        if f"{name} {about}" == step_name:
            raise Killed

    return step


def also(name: str) -> Any:
    """Mark a step that resembles another one, so that only a long run tests it."""
    return pytest.param(name, marks=pytest.mark.full)


def assert_whole(lake: Lake) -> None:
    assert lake.files() == WHOLE
    assert lake.ordinals("Order__e") == [0, 1, 2]
    assert lake.ordinals("_quarantine") == [3]


def test_the_steps_are_these(spark: Any, order: LandingOptions) -> None:
    """The list of steps to kill names every step of a landing."""
    taken: list[str] = []

    land_watched(spark, order, lambda name, about: taken.append(f"{name} {about}"))

    assert taken == STEPS
    elsewhere = {steps.LANDING_BEGAN, steps.LANDING_CLEAR, steps.LANDING_REMOVE}
    assert {step.split()[0] for step in STEPS} | elsewhere == set(steps.LANDING_STEPS)


@pytest.mark.parametrize(
    "name",
    [
        STEPS[1],
        STEPS[3],
        STEPS[7],
        STEPS[10],
        *map(also, [*STEPS[:1], STEPS[2], *STEPS[4:7], *STEPS[8:10]]),
    ],
)
def test_killed_at_any_step_the_next_landing_makes_it_whole(
    spark: Any, order: LandingOptions, lake: Lake, staging: Staging, name: str
) -> None:
    """After a kill at any step, the next landing has each row once and leaves no other file."""
    with pytest.raises(Killed):
        land_watched(spark, order, kill_at(name))
    assert (staging.batch / layout.RECEIPT).exists() == (name == STEPS[-1])

    land(spark, order)

    assert_whole(lake)
    assert (staging.batch / layout.RECEIPT).exists()


def test_readers_of_landed_batches_see_no_part_of_a_killed_one(
    spark: Any, order: LandingOptions, lake: Lake, staging: Staging
) -> None:
    """A reader with `landed_only` sees no row of a batch whose landing was killed."""
    land(
        spark,
        LandingOptions(
            manifest_url=staging.write([staging.order(9)], batch_number=2), table=str(lake.root)
        ),
    )
    with pytest.raises(Killed):
        land_watched(spark, order, kill_at("landing-landed 0f3c-1"))

    everything = read_table(spark, str(lake.root), "Order__e")
    landed = read_table(spark, str(lake.root), "Order__e", landed_only=True)

    assert everything.count() == 4
    assert [row.batch_id for row in landed.collect()] == ["0f3c-2"]
    assert landed.columns == everything.columns


@pytest.mark.full
def test_a_killed_landing_over_an_older_form_of_the_batch(
    spark: Any, order: LandingOptions, lake: Lake, staging: Staging
) -> None:
    """The next landing after a kill removes the files that only an older form of the batch had."""
    alert = staging.event("alert", CreatedDate=0, CreatedById="005A", At__c=1)
    text = (staging.batch / layout.MANIFEST).read_text()
    land(
        spark,
        LandingOptions(manifest_url=staging.write([alert] * 5, per_part=1), table=str(lake.root)),
    )
    (staging.batch / layout.RECEIPT).unlink()
    staging.write(
        [staging.order(0), staging.order(1, day=1), staging.order(2, day=1), ("order", b"")],
        per_part=2,
    )
    assert (staging.batch / layout.MANIFEST).read_text() == text
    stale = "Alert__e/event_date=1970-01-01/0f3c-1-00002.parquet"
    with pytest.raises(Killed):
        land_watched(spark, order, kill_at(f"landing-remove {stale}"))

    land(spark, order)

    assert_whole(lake)


@pytest.mark.parametrize(
    "name", [STEPS[5], STEPS[7], *map(also, [STEPS[1], STEPS[2], *STEPS[8:10]])]
)
def test_a_twin_that_lands_the_whole_batch_in_between(
    spark: Any, order: LandingOptions, lake: Lake, staging: Staging, name: str
) -> None:
    """A landing overtaken by its twin at any step leaves each row once and one receipt."""

    def overtaken(taken: str, about: str) -> None:
        if f"{taken} {about}" == name:
            land(spark, order)

    receipt = land_watched(spark, order, overtaken)

    assert_whole(lake)
    assert (receipt.events, receipt.quarantined) == (4, 1)
    assert (staging.batch / layout.RECEIPT).exists()


def test_twins_at_the_same_time(spark: Any, order: LandingOptions, lake: Lake) -> None:
    """Two attempts that publish one batch at the same time leave each row once."""
    both_written = threading.Barrier(2)
    failures: list[BaseException] = []

    def twin() -> None:
        waited = False

        def step(name: str, _about: str) -> None:
            nonlocal waited
            if name == steps.LANDING_MOVE and not waited:
                waited = True
                both_written.wait()

        try:
            land_watched(spark, order, step)
        except BaseException as failure:  # noqa: BLE001 - shown by the test's own thread
            failures.append(failure)
            both_written.abort()

    twins = [threading.Thread(target=twin) for _ in range(2)]
    for thread in twins:
        thread.start()
    for thread in twins:
        thread.join()

    assert failures == []
    assert_whole(lake)


def test_a_failed_landing_leaves_nothing_behind(
    spark: Any, order: LandingOptions, lake: Lake
) -> None:
    """An error, unlike a kill, removes what the attempt wrote and is raised as it is."""

    def fail(name: str, _about: str) -> None:
        if name == steps.LANDING_MOVE:
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        land_watched(spark, order, fail)

    assert lake.files() == []


@pytest.mark.parametrize(
    "step",
    [
        steps.LANDING_LANDED,
        steps.LANDING_WRITE,
        pytest.param(steps.LANDING_FOLDER, marks=pytest.mark.full),
        pytest.param(steps.LANDING_COMPARE, marks=pytest.mark.full),
    ],
)
def test_giving_way_is_only_for_a_landing_that_happened_meanwhile(
    spark: Any, order: LandingOptions, lake: Lake, step: str
) -> None:
    """A failed landing of a batch that had landed before is a failure, and does not give way."""
    land(spark, order)

    def fail(name: str, _about: str) -> None:
        if name == step:
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        land_watched(spark, order, fail)

    assert_whole(lake)


def test_a_batch_swept_meanwhile_gets_no_receipt(
    spark: Any, order: LandingOptions, lake: Lake, staging: Staging
) -> None:
    """A late landing writes no receipt into a batch folder that has been swept."""

    def sweep(name: str, _about: str) -> None:
        if name == steps.RECEIPT_NEXT:
            (staging.batch / layout.MANIFEST).unlink()

    land_watched(spark, order, sweep)

    assert not (staging.batch / layout.RECEIPT).exists()
