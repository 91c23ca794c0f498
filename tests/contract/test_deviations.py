"""A knob makes the emulator follow the other of two sources, and so pass that source's test."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import TYPE_CHECKING

import pytest

from tests.contract import deviations
from tests.contract.orgs import emulated
from tests.contract.test_changes import lived
from tests.contract.wire import refused

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

# A shortened time would fail on a slow machine; test_publish_stream.py sets it.
TOO_SHORT = "test_publish::test_an_idle_publish_stream_is_swept_after_70_seconds"


@pytest.fixture(autouse=True)
def _here(org: OrgUnderTest) -> None:
    org.staged("this is about the emulator's knobs")


@pytest.mark.parametrize("name", [name for name in deviations.EMULATOR if name != TOO_SHORT])
def test_its_knobs_end_a_deviation(name: str) -> None:
    """With a deviation's knobs the emulator passes the test that it fails by default."""
    module, _, function = name.partition("::")
    test = getattr(import_module(f"tests.contract.{module}"), function)
    with emulated(**deviations.EMULATOR[name].knobs) as other:
        [wanted] = inspect.signature(test).parameters
        test(lived(other) if wanted == "story" else other)


def test_replay_ids_may_have_eight_bytes() -> None:
    """By knob, replay ids have eight bytes as before September 2022."""
    with emulated(replay_id_bytes=8) as other:
        base, event = other.base(), other.event()
        [replay_id] = other.publish(event)
        with other.after(base, 1) as stream:
            response = stream.read()
    assert {len(one) for one in (base, replay_id, response.latest_replay_id)} == {8}
    assert response.events[0].replay_id == replay_id


def test_an_unavailable_service_may_say_unavailable() -> None:
    """By knob the status is UNAVAILABLE, by gRPC's convention; live orgs had INTERNAL."""
    with emulated(service_unavailable="UNAVAILABLE") as other:
        assert other.emulator
        other.emulator.fail_next("GetTopic", error_code="service.unavailable")
        found = refused(other.client.get_topic, other.topic)
    assert found.what == ("UNAVAILABLE", "service.unavailable")
