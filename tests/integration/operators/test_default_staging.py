"""The default staging folder is refused for tasks that may run on several machines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_sfevents.operators.chain import SfEventsFetchOperator
from airflow_provider_sfevents.operators.publish import SfEventsPublishOperator
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor
from tests.integration.operators.conftest import ORDERS

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.operators.conftest import Task

KINDS: list[tuple[type[Any], dict[str, Any]]] = [
    (SfEventsFetchOperator, {}),
    (SfEventsToSparkOperator, {}),
    (SfEventsSensor, {"timeout": 1}),
    (SfEventsSensor, {"timeout": 1, "deferrable": True}),
]
IDS = ["fetch", "to_spark", "sensor", "deferred"]


@pytest.mark.parametrize(("kind", "arguments"), KINDS, ids=IDS)
@pytest.mark.parametrize("where", ["configured", "of the task"])
def test_a_task_that_may_run_elsewhere_needs_a_staging_area(
    task: Task, bus: Emulator, kind: type[Any], arguments: dict[str, Any], where: str
) -> None:
    """The refusal comes before the bus is used, and has the line to set."""
    delivered, streams = bus.deliveries(), len(bus.subscriptions)
    if where == "configured":
        task.monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "LocalExecutor,not.installed.Executor")
    else:
        arguments = {**arguments, "executor": "not.installed.Executor"}
    with pytest.raises(AirflowException, match=r"staging_shared = True") as raised:
        task.execute(kind, task_id="waits", staging=None, **arguments)
    assert isinstance(raised.value, AirflowFailException)
    assert "'not.installed.Executor' cannot be loaded here" in str(raised.value)
    assert (bus.deliveries(), len(bus.subscriptions), task.positions) == (delivered, streams, {})


def test_a_publisher_that_may_run_elsewhere_needs_one_too(task: Task, bus: Emulator) -> None:
    """A publisher is refused without a shared staging area: its retry would publish all again."""
    task.monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "not.installed.Executor")
    before = len(bus.events(ORDERS))
    _, run = task.prepare_alone(
        SfEventsPublishOperator, topic=ORDERS, records=[{"Order_Number__c": "A"}], staging=None
    )
    with pytest.raises(AirflowFailException, match=r"staging_shared = True"):
        run()
    assert len(bus.events(ORDERS)) == before


@pytest.mark.parametrize("shared", [True, False], ids=["said to be shared", "given"])
def test_a_staging_area_that_all_machines_see_is_not_refused(task: Task, *, shared: bool) -> None:
    """A task fetches if the default folder is said to be shared, or if `staging` is given."""
    task.monkeypatch.setenv("AIRFLOW__CORE__EXECUTOR", "not.installed.Executor")
    if shared:
        task.monkeypatch.setenv("AIRFLOW__SFEVENTS__STAGING_SHARED", "True")
    staging = None if shared else task.staging.as_uri()
    assert task.execute(SfEventsFetchOperator, staging=staging)["events"] == 1
