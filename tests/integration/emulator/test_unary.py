"""GetTopic, GetSchema and Publish over a real socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs

Talk = Callable[..., Any]
ORDER = {"Number__c": "Text"}


@pytest.mark.parametrize("knob", ["empty", "first"])
def test_schema_of_a_channel(talk: Talk, knob: Any) -> None:
    """A channel has no schema, or by knob its first member's."""
    with Emulator(knobs=Knobs(channel_schema=knob)) as bus:
        bus.define_event("Order__e", ORDER)
        channel = bus.define_channel("/event/X__chn", ["Order__e"])
        info = talk(bus, lambda client: client.get_topic(channel))
        assert info.schema_id == ("" if knob == "empty" else bus.schema_id("Order__e"))
        assert info.can_publish is False
