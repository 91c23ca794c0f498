"""Upkeep killed before and after each statement, beside killed landings and applies."""

from __future__ import annotations

import threading
from contextlib import suppress
from itertools import cycle
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.spark.upkeep.job import maintain
from airflow_provider_sfevents.spark.upkeep.plan import UpkeepOptions
from tests.harness.killed import Killed, kill
from tests.harness.step_hooks import no_step, on_steps
from tests.spark.conftest import SOAKED_DELTA, at
from tests.spark.lakes import upkeep
from tests.spark.orgs import A, B, CurrentState, event

if TYPE_CHECKING:
    from pathlib import Path

    from tests.harness.step_hooks import OnStep
    from tests.spark.conftest import Staging
    from tests.spark.lakes import Tables

# PySpark leaves it to the garbage collector to close the sockets it reads results from.
pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]

STEPS = {
    "delta": steps.DELTA_UPKEEP_STEPS,
    # Iceberg expires only what is older than a day: `test_upkeep` has a table for it.
    "iceberg": tuple(name for name in steps.ICEBERG_UPKEEP_STEPS if name != steps.UPKEEP_EXPIRE),
}
NUMBERS = ("batch_number", "batch_ordinal", "Number__c")
LANDING_STEPS = (
    steps.LANDING_WRITE,
    steps.LANDING_MOVE,
    steps.LANDING_LANDED,
    steps.RECEIPT_NEXT,
)
DISTURBED = ((steps.UPKEEP_COMPACT, False), (steps.UPKEEP_REMOVE, True))


def upkeep_of_state(state: CurrentState, step: OnStep = no_step) -> dict[str, Any]:
    options = UpkeepOptions(
        table="", current_state=state.root, table_format=state.table_format, dry_run=False
    )
    with on_steps(step):
        return maintain(state.spark, options)


def dying(number: int) -> OnStep:
    """Kill the job before its n-th step of any kind."""
    taken: list[str] = []

    def step(name: str, _about: str) -> None:
        taken.append(name)
        if len(taken) == number:
            kill()

    return step


def batch(staging: Staging, batch_number: int) -> str:
    """Manifest of a batch of two events on each of two days."""
    orders = [staging.order(10 * batch_number + n, day=n % 2) for n in range(4)]
    return staging.write(orders, batch_number=batch_number)


def expected(*sequences: int) -> list[tuple[Any, ...]]:
    return [(one, n, f"N{10 * one + n}") for one in sequences for n in range(4)]


def shape(tables: Tables) -> dict[str, int]:
    """Number of the files that upkeep keeps few."""
    if tables.table_format == "delta":
        return {"data": tables.sql("describe detail {}").first()["numFiles"]}
    files, manifests = (tables.sql(f"table {{}}.{name}") for name in ("files", "manifests"))
    return {
        "data": files.where("content = 0").count(),
        "deletes": files.where("content <> 0").count(),
        "manifests": manifests.where("content = 0").count(),
    }


def delete(tables: Tables, number: str) -> None:
    """Delete a row; of an Iceberg table by a file of position deletes."""
    tables.sql(f"delete from {{}} where Number__c = '{number}'")  # noqa: S608


@pytest.mark.soak
def test_the_next_upkeep_completes_one_that_was_killed(tables: Tables, staging: Staging) -> None:
    """After a kill at any statement the rows are as before, and the next run completes upkeep."""
    tables.land(batch(staging, 1), table_properties={"write.delete.mode": "merge-on-read"})
    delete(tables, "N11")
    taken: set[str] = set()
    there = {*expected(1)} - {(1, 1, "N11")}
    for batch_number, step in enumerate(STEPS[tables.table_format], 2):
        tables.land(batch(staging, batch_number))
        delete(tables, f"N{10 * batch_number}")
        there |= {*expected(batch_number)} - {(batch_number, 0, f"N{10 * batch_number}")}
        with suppress(Killed):
            upkeep(tables, at(step, kill))
        assert set(tables.rows("Order__e", *NUMBERS)) == there, step

        upkeep(tables, lambda name, _about: taken.add(name))

        assert set(tables.rows("Order__e", *NUMBERS)) == there, step
        compacted = {"data": 2, "deletes": 0, "manifests": 1}
        assert shape(tables) == {name: compacted[name] for name in shape(tables)}, step
    assert taken == {*STEPS[tables.table_format]}


@SOAKED_DELTA
def test_batches_land_at_every_step_of_upkeep(tables: Tables, staging: Staging) -> None:
    """Batches that land before any statement of upkeep have their rows once, also after a kill."""
    first = batch(staging, 1)
    tables.land(first)
    for number, (step, is_killed) in enumerate(DISTURBED, 1):
        batch_number = 2 * number + 1
        tables.land(batch(staging, batch_number - 1))
        manifest = batch(staging, batch_number)

        def landed(manifest: str = manifest, *, is_killed: bool = is_killed) -> None:
            tables.land(manifest)
            tables.land(first)
            if is_killed:
                kill()

        if is_killed:
            with pytest.raises(Killed):
                upkeep(tables, at(step, landed))
        else:
            upkeep(tables, at(step, landed))

        assert tables.rows("Order__e", *NUMBERS) == expected(*range(1, batch_number + 1)), step


@pytest.mark.soak
def test_upkeep_is_killed_at_every_step_of_a_landing(tables: Tables, staging: Staging) -> None:
    """A landing that is killed as well, and landed again, leaves every row once."""
    tables.land(batch(staging, 1))
    deaths = cycle((1, 2))
    for batch_number, step in enumerate(LANDING_STEPS, 2):
        manifest = batch(staging, batch_number)

        def disturbed(name: str, _about: str, fatal: str = step) -> None:
            if name == fatal:
                with pytest.raises(Killed):
                    upkeep(tables, dying(next(deaths)))
                kill()

        with pytest.raises(Killed):
            tables.land(manifest, disturbed)
        upkeep(tables)

        tables.land(manifest, at(steps.LANDING_MOVE, lambda: upkeep(tables)))

        assert tables.rows("Order__e", *NUMBERS) == expected(*range(1, batch_number + 1)), step


@pytest.mark.soak
def test_upkeep_is_killed_at_every_commit_of_an_apply(
    table_format: str, spark: Any, staging: Staging, tmp_path: Path
) -> None:
    """An apply killed beside upkeep, and run again, leaves the records as the org has them."""
    state = CurrentState(spark, str(tmp_path / "records"), table_format, staging)
    state.apply(
        state.stage(
            event(staging, 1, "CREATE", A, Industry="Mining"),
            event(staging, 2, "CREATE", B, Industry="Farming"),
        )
    )
    changes = state.stage(
        event(staging, 3, "UPDATE", A, Industry="Shipping"), event(staging, 4, "DELETE", B)
    )
    commits: list[str] = []
    state.apply(
        changes, lambda name, about: commits.append(about) if name == steps.APPLY_COMMIT else None
    )
    assert commits
    deaths = cycle((2, 7, 13))
    number = 3
    for fatal in commits[::4]:
        number += 3
        industry = f"Industry {number}"
        changes = state.stage(
            event(staging, number, "UPDATE", A, Industry=industry),
            event(staging, number + 1, "CREATE", B, Industry="Farming"),
            event(staging, number + 2, "DELETE", B),
        )

        def disturbed(name: str, about: str, fatal: str = fatal) -> None:
            if name == steps.APPLY_COMMIT and about == fatal:
                with pytest.raises(Killed):
                    upkeep_of_state(state, dying(next(deaths)))
                kill()

        with pytest.raises(Killed):
            state.apply(changes, disturbed)
        upkeep_of_state(state)
        state.apply(changes)

        found = state.rows("Account", "record_id", "Industry")
        assert found == [{"record_id": A, "Industry": industry}], fatal


@pytest.mark.soak
def test_two_upkeeps_at_once_beside_landings_and_applies(
    tables: Tables, staging: Staging, tmp_path: Path
) -> None:
    """Two upkeeps at once, beside landings and applies, leave each row once."""
    state = CurrentState(tables.spark, str(tmp_path / "records"), tables.table_format, staging)
    state.apply(state.stage(event(staging, 1, "CREATE", A, Industry="0")))
    tables.land(batch(staging, 101))
    ended = threading.Event()
    failures: list[BaseException] = []

    def again_and_again() -> None:
        try:
            while not ended.is_set():
                upkeep(tables)
                upkeep_of_state(state)
        except BaseException as failure:  # noqa: BLE001 - shown by the test's own thread
            failures.append(failure)

    upkeeps = [threading.Thread(target=again_and_again) for _ in range(2)]
    for one in upkeeps:
        one.start()
    try:
        for number in range(2, 6):
            tables.land(batch(staging, 100 + number))
            state.apply(state.stage(event(staging, number, "UPDATE", A, Industry=str(number))))
    finally:
        ended.set()
        for one in upkeeps:
            one.join()

    assert failures == []
    assert tables.rows("Order__e", *NUMBERS) == expected(*range(101, 106))
    assert state.rows("Account", "record_id", "Industry") == [{"record_id": A, "Industry": "5"}]
