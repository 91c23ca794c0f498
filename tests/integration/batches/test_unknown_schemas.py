"""Events whose schema the service does not have: kept, recorded, and requested again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.batches.outcome import Staged
from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.staging import layout
from tests.integration.batches.conftest import TOPIC, publish

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.batches.conftest import Consumer

NOWHERE = "AAAAAAAAAAAAAAAAAAAAAA"


@pytest.fixture(params=["NOT_FOUND", "INVALID_ARGUMENT", "PERMISSION_DENIED"])
def bus(request: pytest.FixtureRequest) -> Iterator[Emulator]:
    knobs = Knobs(half_close_seconds=0.01, unknown_schema=request.param)
    with Emulator(knobs=knobs) as emulator:
        emulator.define_event("Order__e", {"Order_Number__c": "Text", "Amount__c": "Double"})
        yield emulator


def test_an_unknown_schema_does_not_stop_the_batch(bus: Emulator, consumer: Consumer) -> None:
    """Events of an unknown schema are staged, with the reason beside the schemas."""
    publish(bus, 1, 2)
    bus.publish_raw(TOPIC, b"\x02?", NOWHERE)
    publish(bus, 3, 2)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert staged.manifest.events == 5
    assert NOWHERE in staged.manifest.schemas
    reason = (staged.folder.folder / layout.unknown_schema_name(NOWHERE)).read_text()
    assert NOWHERE in reason


def test_a_schema_is_asked_for_again_when_the_batch_is(bus: Emulator, consumer: Consumer) -> None:
    """A try that reuses a batch requests its missing schema again."""
    bus.publish_raw(TOPIC, b"\x02?", NOWHERE)
    publish(bus, 1, 2)
    staged = consumer.stage()
    assert isinstance(staged, Staged)
    staged.release()
    assert NOWHERE not in staged.folder.schemas()
    before = asked_for(bus)
    rerun = consumer.stage()
    rerun.release()
    assert (before, asked_for(bus)) == (1, 2)


def asked_for(bus: Emulator) -> int:
    """Return the number of requests for the schema that the service does not have."""
    return sum(call.rpc == "GetSchema" and call.subject == NOWHERE for call in bus.requests)


def test_a_schema_that_comes_late_costs_no_stream(bus: Emulator, consumer: Consumer) -> None:
    """A schema that comes late is requested again by the same fetch, with the stream open."""
    publish(bus, 1, 3)
    bus.fail_next("GetSchema", error_code="schema.api.unavailable", times=2)
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, bus.deliveries(TOPIC)) == (3, 3)


def test_a_schema_that_cannot_be_had_just_now_is_a_retry(bus: Emulator, consumer: Consumer) -> None:
    """A schema unavailable until `max_seconds` fails the try, which keeps the events."""
    publish(bus, 1, 3)
    bus.fail_next("GetSchema", error_code="schema.api.unavailable", times=1000)
    bounds, consumer.bounds = consumer.bounds, replace(consumer.bounds, max_seconds=2.0)
    with pytest.raises(TransportError, match=r"schema\.api\.unavailable"):
        consumer.stage()
    assert list(consumer.root.rglob("*.unknown")) == []
    bus.clear_faults()
    consumer.bounds = bounds
    staged = consumer.run_once()
    assert isinstance(staged, Staged)
    assert (staged.manifest.events, bus.deliveries(TOPIC)) == (3, 3)
