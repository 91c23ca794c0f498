from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from tests.foreign.test_npm_streams import number, publish, replay_ids
from tests.harness.foreign_clients import ForeignError

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator
    from tests.foreign.conftest import Start

pytestmark = pytest.mark.full


def wait_committed(bus: Emulator, name: str, replay_id: int) -> None:
    """Wait for a commit on the bus, because the client does not show the answers."""
    until = time.monotonic() + 10
    while committed(bus, name) != replay_id:
        assert time.monotonic() < until, (committed(bus, name), replay_id)
        time.sleep(0.02)


def committed(bus: Emulator, name: str) -> int | None:
    [config] = [one for one in bus.managed_subscriptions if one.developer_name == name]
    return number(bytes.fromhex(config.committed)) if config.committed else None


def test_the_bus_remembers_what_was_committed(bus: Emulator, topic: str, npm: Start) -> None:
    """A returning client receives the events that it had not committed."""
    managed = bus.define_managed_subscription("Orders", topic, default_replay="EARLIEST")
    published = publish(bus, topic, 1, 4)
    first = npm()
    first.order("subscribeManaged", subscription="Orders", count=3)
    first.wait("lastEvent")
    assert replay_ids(first, 3) == published[:3]
    request_id = first.order("commit", subscription=managed.id, replayId=published[1])
    wait_committed(bus, "Orders", published[1])
    first.stop()  # its close() leaves the stream open, and with it the slot taken
    bus.wait_open_streams(0)
    [commit] = bus.subscriptions[-1].commits
    assert (commit.request_id, commit.error) == (request_id, "")

    second = npm()
    second.order("subscribeManaged", subscription=managed.id, count=2)
    second.wait("lastEvent")
    assert replay_ids(second, 2) == published[2:]
    second.order("commit", subscription=managed.id, replayId=published[3])
    second.order("requestMoreManaged", subscription=managed.id, count=1)
    [later] = publish(bus, topic, 5, 1)
    assert replay_ids(second, 3)[2] == later
    wait_committed(bus, "Orders", published[3])


def test_past_a_hundred_events(bus: Emulator, topic: str, npm: Start) -> None:
    """The client requests further hundreds of events, and commits do not disturb it."""
    managed = bus.define_managed_subscription("Many", topic, default_replay="EARLIEST")
    published = publish(bus, topic, 1, 120)
    client = npm()
    client.order("subscribeManaged", subscription="Many")
    client.wait("lastEvent")
    client.order("commit", subscription=managed.id, replayId=published[49])
    client.order("requestMoreManaged", subscription=managed.id, count=100)
    client.order("commit", subscription=managed.id, replayId=published[99])
    assert replay_ids(client, 120) == published
    wait_committed(bus, "Many", published[99])


def test_only_one_client_at_a_time(bus: Emulator, topic: str, npm: Start) -> None:
    """A second client is refused with Salesforce's status."""
    bus.define_managed_subscription("Taken", topic, default_replay="LATEST")
    first, second = npm(), npm()
    first.order("subscribeManaged", subscription="Taken", count=1)
    bus.wait_open_streams(1)
    second.order("subscribeManaged", subscription="Taken", count=1)
    [error] = second.wait("error")
    assert error["status"] == 6
    publish(bus, topic, 1, 1)
    first.wait("lastEvent")


def test_a_stopped_subscription(bus: Emulator, topic: str, npm: Start) -> None:
    """The client reads the state by the Tooling API and does not subscribe."""
    managed = bus.define_managed_subscription("Stopped", topic, state="STOP")
    client = npm()
    with pytest.raises(ForeignError, match=rf"Stopped \({managed.id}\): subscription is in STOP"):
        client.order("subscribeManaged", subscription="Stopped", count=1)


def test_an_unknown_subscription(npm: Start) -> None:
    """The client reports that the Tooling API finds no subscription."""
    client = npm()
    with pytest.raises(
        ForeignError, match=r"Failed to retrieve managed .* DeveloperName='Unknown'"
    ):
        client.order("subscribeManaged", subscription="Unknown", count=1)
