from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from tests.dags.conftest import rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.dags.conftest import Deploy

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(900)]

DAG = "salesforce_orders_own_job"


def test_a_job_of_ones_own_lands_what_the_operator_fetched(
    deploy: Deploy, repository: Path
) -> None:
    """The table of a custom job has all events, and the position is at the last of them."""
    with deploy(f"{DAG}.py") as here:
        shutil.copytree(repository / "dags/jobs", here.airflow.dags / "jobs")
        shutil.copy(repository / "dags/.airflowignore", here.airflow.dags)
        published = here.publish(998, 5)
        run = here.run(DAG)
        assert run.tasks == {"land_orders": "success"}, run.log
        landed = rows(here, "sized_orders/Order__e")
        assert [(row["Order_Number__c"], row["size"]) for row in landed] == [
            *((f"A-{number}", "small") for number in (998, 999)),
            *((f"A-{number}", "large") for number in (1000, 1001, 1002)),
        ]
        position = here.position(DAG)
        assert position is not None
        assert (position["events_total"], position["replay_id"]) == (5, published[-1])
