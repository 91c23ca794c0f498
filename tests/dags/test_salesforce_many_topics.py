from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.dags.conftest import ACCOUNTS, CONTACTS, SALES, rows

if TYPE_CHECKING:
    from tests.dags.conftest import Deploy

pytestmark = [pytest.mark.airflow, pytest.mark.spark, pytest.mark.full, pytest.mark.timeout(900)]

DAG = "salesforce_many_topics"


def test_each_topic_has_a_position_of_its_own(deploy: Deploy) -> None:
    """Each mapped topic has its own position at its last event, and its events in their table."""
    with deploy("salesforce_many_topics.py") as here:
        here.publish(1, 4)
        sale = here.bus.publish("/event/Shipment__e", [{"Order_Number__c": "A-1"}])[-1].hex()
        account = here.bus.change("Account", "CREATE", "001000000000001AAA", {"Name": "Acme"}).hex()
        contact = here.bus.change(
            "Contact", "CREATE", "003000000000001AAA", {"Email": "a@b.c"}
        ).hex()
        run = here.run(DAG)
        assert run.tasks == dict.fromkeys(("land[0]", "land[1]", "land[2]"), "success"), run.log
        ends = {SALES: (5, sale), ACCOUNTS: (1, account), CONTACTS: (1, contact)}
        for topic, (events, end) in ends.items():
            position = here.position(DAG, topic)
            assert position is not None
            assert (position["batch_number"], position["events_total"], position["replay_id"]) == (
                1,
                events,
                end,
            )
            assert here.bus.deliveries(topic) == events
        tables = ("Order__e", "Shipment__e", "AccountChangeEvent", "ContactChangeEvent")
        assert {table: len(rows(here, f"many_topics/{table}")) for table in tables} == dict(
            zip(tables, (4, 1, 1, 1), strict=True)
        )
