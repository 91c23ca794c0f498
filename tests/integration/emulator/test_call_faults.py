"""Calls and streams fail on order, by count and by time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from grpc import aio

from airflow_provider_sfevents.emulator import Emulator, EmulatorError, Knobs
from tests.integration.emulator.event_calls import published

Talk = Callable[..., Any]
Http = Callable[..., Any]
QUICK = Knobs(half_close_seconds=0.01)


def test_a_stream_ends_politely_after_so_many_events(talk: Talk) -> None:
    """Status OK ends Subscribe after the ordered events, without trailers."""
    with Emulator(knobs=QUICK) as bus:
        topic, _ = published(bus, 9)
        bus.fail_next("Subscribe", status="OK", after=4)

        async def scenario(client: Any) -> Any:
            stream = await client.subscribe(topic)
            events = await stream.take(4)
            ended = await stream.read() is aio.EOF
            return len(events), ended, (await stream.call.code()).name

        assert talk(bus, scenario) == (4, True, "OK")
        assert (bus.subscriptions[0].delivered, bus.subscriptions[0].ended) == (4, "OK")


def test_a_stream_fails_by_time(talk: Talk) -> None:
    """An idle stream with credit fails at its time, with the code's trailers."""
    with Emulator(knobs=QUICK) as bus:
        topic, _ = published(bus, 3)
        bus.fail_next("Subscribe", error_code="service.auth.error", after_seconds=0.2)

        async def scenario(client: Any) -> Any:
            began = time.monotonic()
            stream = await client.subscribe(topic)
            await stream.take(3)
            refused = await client.refused(stream.read())
            return refused, time.monotonic() - began

        refused, lasted = talk(bus, scenario)
        assert (refused.code, refused.status) == ("service.auth.error", "UNAUTHENTICATED")
        assert refused.trailers["type"] == "Subscribe"
        assert refused.message.endswith(refused.trailers["rpc-id"])
        assert lasted >= 0.2


def test_of_count_and_time_the_first_counts(talk: Talk) -> None:
    """A fast stream with both limits fails by count."""
    with Emulator(knobs=QUICK) as bus:
        topic, _ = published(bus, 5)
        bus.fail_next("Subscribe", after=2, after_seconds=60)

        async def scenario(client: Any) -> Any:
            stream = await client.subscribe(topic)
            await stream.take(2)
            return (await client.refused(stream.read())).code

        assert talk(bus, scenario) == "service.unavailable"


def test_a_fault_that_did_not_come_is_left_for_the_next_stream(talk: Talk) -> None:
    """An unused fault is left to the next stream and can be listed and cleared."""
    with Emulator(knobs=QUICK) as bus:
        topic, _ = published(bus, 5)
        bus.fail_next("Subscribe", error_code="topic.not.found", after=4, times=2)
        bus.fail_next("token")

        async def scenario(client: Any) -> Any:
            short = await client.subscribe(topic, 3)
            await short.take(3)
            await short.end()
            await asyncio.to_thread(bus.wait_open_streams, 0)
            left = [(fault.rpc, fault.status, fault.times) for fault in bus.faults()]
            stream = await client.subscribe(topic)
            await stream.take(4)
            return left, (await client.refused(stream.read())).code

        left, code = talk(bus, scenario)
        assert sorted(left) == [
            ("Subscribe", "NOT_FOUND", 1),
            ("Subscribe", "NOT_FOUND", 1),
            ("token", "INTERNAL", 1),
        ]
        assert code == "topic.not.found"
        bus.clear_faults("Subscribe")
        assert [fault.rpc for fault in bus.faults()] == ["token"]
        bus.clear_faults()
        assert bus.faults() == ()


def test_the_fault_of_an_open_stream_can_be_cleared(talk: Talk) -> None:
    """A fault that waits on an open stream is listed until it is cleared, and then never comes."""
    with Emulator(knobs=QUICK) as bus:
        topic, _ = published(bus, 5)
        bus.fail_next("Subscribe", after=4)

        async def scenario(client: Any) -> Any:
            stream = await client.subscribe(topic, 3)
            await stream.take(3)
            listed = bus.faults()
            await asyncio.to_thread(bus.clear_faults, "Subscribe")
            await stream.ask(2)
            await stream.take(2)
            return [(fault.rpc, fault.after) for fault in listed], bus.faults()

        assert talk(bus, scenario) == ([("Subscribe", 4)], ())


def test_calls_and_logins_fail_late(talk: Talk, http: Http) -> None:
    """`after_seconds` delays the failure of a call or a login."""
    with Emulator() as bus:
        topic, _ = published(bus, 0)
        bus.fail_next("GetTopic", status="DEADLINE_EXCEEDED", after_seconds=0.1)
        bus.fail_next("token", status="UNAVAILABLE", after_seconds=0.1, after=1)

        async def scenario(client: Any) -> Any:
            began = time.monotonic()
            refused = await client.refused(client.get_topic(topic))
            return refused.status, time.monotonic() - began

        status, lasted = talk(bus, scenario)
        assert status == "DEADLINE_EXCEEDED"
        assert lasted >= 0.1
        token = f"{bus.my_domain_url}/services/oauth2/token"
        assert [http(token, {"grant_type": "x"}).status for _ in range(3)] == [400, 503, 400]


def test_what_did_not_come_can_be_asked_after_the_end() -> None:
    """Unused faults can be listed after the emulator has stopped."""
    with Emulator() as bus:
        bus.fail_next("Publish")
    assert [fault.rpc for fault in bus.faults()] == ["Publish"]
    bus.clear_faults()
    assert bus.faults() == ()


@pytest.mark.parametrize("in_stream", [True, False])
@pytest.mark.parametrize("knob", [True, False])
def test_tokens_expire_in_mid_stream_or_not(talk: Talk, *, in_stream: bool, knob: bool) -> None:
    """An explicit argument overrides the knob; the next call is refused either way."""
    with Emulator(knobs=Knobs(half_close_seconds=0.01, expiry_ends_streams=knob)) as bus:
        topic, _ = published(bus, 1)

        async def scenario(client: Any) -> Any:
            stream = await client.subscribe(topic)
            await stream.take(1)
            bus.expire_tokens(in_stream=in_stream)
            next_call = await client.refused(client.get_topic(topic))
            if in_stream:
                return next_call.code, (await client.refused(stream.read())).code
            bus.publish(topic, [{"Number__c": "2"}])
            return next_call.code, len(await stream.take(1))

        expected = "service.auth.error" if in_stream else 1
        assert talk(bus, scenario) == ("service.auth.error", expected)


@pytest.mark.parametrize(
    ("rpc", "more", "why"),
    [
        ("GetTopic", {"status": "OK"}, "polite end of a stream"),
        ("Subscribe", {"status": "OK", "error_code": "service.unavailable"}, "has no error code"),
        ("token", {"how": "reset"}, "token is HTTP"),
        ("Subscribe", {"how": "rest"}, "'rest' is not one of reset, goaway, rst_stream"),
        ("Subscribe", {"how": "reset", "status": "UNAVAILABLE"}, "leave error_code"),
        ("Subscribe", {"times": 0}, "times must be at least 1"),
        ("Subscribe", {"after_seconds": -1}, "0 or more"),
    ],
)
def test_mistakes_are_named(rpc: str, more: dict[str, Any], why: str) -> None:
    """An impossible fault is refused and leaves nothing behind."""
    with Emulator() as bus:
        with pytest.raises(EmulatorError, match=why):
            bus.fail_next(rpc, **more)
        assert bus.faults() == ()
