"""Clusters on which the job cannot run are found before an event is requested."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from tests.integration.operators.conftest import ORDERS

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.operators.conftest import Task


def spark(task: Task, host: str, **extra: str) -> None:
    task.connect("spark_default", {"conn_type": "spark", "host": host, "extra": extra})


@pytest.mark.parametrize(
    ("host", "said"),
    [
        ("spark://cluster:7077", "a standalone cluster runs no Python drivers"),
        ("yarn", "yarn_track_via_rm_api=True"),
    ],
)
def test_a_mode_that_cannot_work(task: Task, bus: Emulator, host: str, said: str) -> None:
    """A mode that cannot work fails for good, with nothing fetched or staged."""
    spark(task, host, **{"deploy-mode": "cluster"})
    delivered = bus.deliveries(ORDERS)
    with pytest.raises(AirflowFailException, match=said):
        task.execute(staging_shared=True)
    assert (bus.deliveries(ORDERS), task.left_behind) == (delivered, [])


def test_a_master_that_does_not_answer(task: Task, bus: Emulator) -> None:
    """A master that does not answer fails the task before the fetch; it may be retried."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    spark(task, f"spark://127.0.0.1:{port}")
    delivered = bus.deliveries(ORDERS)
    said: Any
    with pytest.raises(AirflowException, match="does not answer") as said:
        task.execute(staging_shared=True)
    assert not isinstance(said.value, AirflowFailException)
    assert (bus.deliveries(ORDERS), task.left_behind) == (delivered, [])
