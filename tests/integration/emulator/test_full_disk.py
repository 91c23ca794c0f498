"""A full disk: clients get an error that names the file, and nothing is stored half."""

from __future__ import annotations

import re
import resource
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.integration.emulator.resting import Rest
from tests.integration.emulator.test_publish_stream import ORDER, Publishing

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Talk = Callable[..., Any]
TOPIC = "/event/Order__e"
SAYS = re.compile(r"cannot write to .*bus\.log: .*make room there")


@contextmanager
def full_disk(folder: Path) -> Iterator[None]:
    """Let no file grow more than some bytes beyond the journal."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = max(path.stat().st_size for path in folder.rglob("bus.log"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Emulator]:
    with Emulator(folder=tmp_path, knobs=Knobs(keepalive_seconds=0.05)) as emulator:
        emulator.define_event("Order__e", ORDER)
        yield emulator
        emulator.check()


def numbers(bus: Emulator) -> list[str]:
    return [one["fields"]["Number__c"] for one in bus.events(TOPIC)]


@pytest.mark.parametrize("rpc", ["Publish", "PublishStream"])
def test_a_request_that_cannot_be_stored_is_refused(
    bus: Emulator, tmp_path: Path, talk: Talk, rpc: str
) -> None:
    """The call ends with the file and the remedy, and a later one publishes each event once."""

    async def publish(client: Any) -> Any:
        stream = Publishing(client, bus, TOPIC)
        events = [stream.event("1"), stream.event("2")]
        if rpc == "Publish":
            return await client.publish(TOPIC, *events)
        await stream.send(*events)
        return await stream.read()

    async def scenario(client: Any) -> Any:
        with full_disk(tmp_path):
            refused = await client.refused(publish(client))
        assert numbers(bus) == []
        assert len((await publish(client)).results) == 2
        return refused

    refused = talk(bus, scenario)
    assert (refused.status, refused.code) == ("INTERNAL", "service.unavailable")
    assert SAYS.search(refused.message)
    bus.stop()
    with Emulator(folder=tmp_path) as again:
        assert numbers(again) == ["1", "2"]


def test_a_keepalive_that_cannot_be_stored_is_not_sent(
    bus: Emulator, tmp_path: Path, talk: Talk
) -> None:
    """The stream ends with an error; it does not give a replay id that a restart would forget."""

    async def scenario(client: Any) -> Any:
        with full_disk(tmp_path):
            stream = await client.subscribe(TOPIC, preset=pb.LATEST)
            return await client.refused(stream.read())

    assert SAYS.search(talk(bus, scenario).message)


def test_rest_says_that_it_is_not_available(bus: Emulator, tmp_path: Path) -> None:
    """A record that cannot be stored is answered with 503, and is not there."""
    rest = Rest(bus)
    rest.ask("POST", "/sobjects/Contact", {"LastName": "First"})
    with full_disk(tmp_path):
        said = rest.ask("POST", "/sobjects/Contact", {"LastName": "x"})
        event = rest.ask("POST", "/sobjects/Order__e", {"Number__c": "1"})
    assert (said.status, said.code, event.status) == (503, "SERVER_UNAVAILABLE", 503)
    assert SAYS.search(said.body[0]["message"])
    assert [one["LastName"] for one in rest.read_all("SELECT LastName FROM Contact")] == ["First"]
    assert numbers(bus) == []
