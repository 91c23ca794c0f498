"""The DAG `salesforce_push_topic`: records that a PushTopic tells of, in a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.dags.conftest import rows
from tests.integration.emulator.resting import Rest

if TYPE_CHECKING:
    from tests.dags.conftest import Deploy

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(900)]

DAG = "salesforce_push_topic"


def test_a_push_topic_lands_as_every_other_topic(deploy: Deploy) -> None:
    """Each change of a record is a row with its kind, and the position is the other API's."""
    with deploy("salesforce_push_topic.py") as here:
        query = "SELECT Id, Name, NumberOfEmployees FROM Account"
        given = {"Name": "Accounts", "Query": query, "ApiVersion": 64.0}
        assert Rest(here.bus).ask("POST", "/sobjects/PushTopic", given).status == 201
        record = here.bus.create("Account", {"Name": "Acme", "NumberOfEmployees": 5})
        here.bus.update(record, {"NumberOfEmployees": 6})
        here.bus.delete(record)
        run = here.run(DAG)
        assert run.state == "success", run.log
        found = rows(here, "Accounts")
        position = here.position(DAG, "/topic/Accounts")
    assert [(row["change_type"], row["Name"], row["NumberOfEmployees"]) for row in found] == [
        ("created", "Acme", 5),
        ("updated", "Acme", 6),
        ("deleted", None, None),
    ]
    assert position is not None
    assert (position["batch_number"], position["transport"]) == (1, "streaming")
