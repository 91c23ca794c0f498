"""The emulator starts, stops, restores its folder, fails on order and reports its own defects."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, EmulatorError, Knobs
from airflow_provider_sfevents.emulator.errors import PortInUseError
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

Talk = Callable[..., Any]
Http = Callable[..., Any]
QUICK = Knobs(half_close_seconds=0.01)
ORDER = {"Number__c": "Text"}


def test_a_restart_changes_nothing(talk: Talk, tmp_path: Path) -> None:
    """With a folder, org, secrets, URLs, schemas, events and ids survive a restart."""
    with Emulator(folder=tmp_path, knobs=QUICK, tls=True) as bus:
        topic = bus.define_event("Order__e", ORDER)
        first_id = bus.publish(topic, [{"Number__c": "1"}])[0]
        bus.add_org("second").define_event("Other__e", {})
        before = bus.connection(), bus.connection("jwt_bearer"), [org.org_id for org in bus.orgs]
    with Emulator(folder=tmp_path, knobs=QUICK, tls=True) as bus:
        assert (
            bus.connection(),
            bus.connection("jwt_bearer"),
            [org.org_id for org in bus.orgs],
        ) == before
        assert bus.orgs[1].bus.topic("/event/Other__e")
        bus.publish(topic, [{"Number__c": "2"}])

        async def scenario(client: Any) -> list[Any]:
            stream = await client.subscribe(topic, preset=pb.CUSTOM, replay_id=first_id)
            return list(await stream.take(1))

        [event] = talk(bus, scenario)
        assert event.event.id == bus.events(topic)[1]["id"]
        assert event.replay_id > first_id


def test_a_port_that_is_none_is_said() -> None:
    """An invalid port is one clear error, and nothing runs."""
    with pytest.raises(EmulatorError, match="gRPC port 70000 is not a port"):
        Emulator(grpc_port=70_000).start()


def test_started_again_without_a_folder_it_is_another_org() -> None:
    """Without a folder a restart is a new org."""
    bus = Emulator()
    ids = []
    for _ in range(2):
        bus.start()
        ids.append(bus.org.org_id)
        bus.stop()
    assert ids[0] != ids[1]


def test_counts_are_there_after_the_end(talk: Talk) -> None:
    """Counts can be read after a stop, which closes all streams."""
    with Emulator(knobs=QUICK) as bus:
        topic = bus.define_event("Order__e", ORDER)
        bus.publish(topic, [{"Number__c": "1"}])

        async def scenario(client: Any) -> None:
            await (await client.subscribe(topic)).take(1)

        talk(bus, scenario)
    assert bus.deliveries() == 1
    assert bus.open_streams == 0


@pytest.mark.parametrize("which", ["grpc_port", "http_port", "login_port"])
def test_a_port_in_use_is_named(which: str) -> None:
    """A port in use is one clear error, and nothing keeps running."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        bus = Emulator(**{which: port})
        with pytest.raises(PortInUseError, match=f"port {port} on 127.0.0.1 is in use"):
            bus.start()
    with bus:
        assert bus.endpoint


def test_misuse_is_told() -> None:
    """A stopped emulator reports that, and a running one does not start twice."""
    bus = Emulator()
    with pytest.raises(EmulatorError, match="never started"):
        bus.publish("/event/X__e", [{}])
    with bus, pytest.raises(EmulatorError, match="runs already"):
        bus.start()
    with pytest.raises(EmulatorError, match="not running"):
        _ = bus.endpoint
    with Emulator() as bus:
        with pytest.raises(EmulatorError, match="'kerberos' is not one of"):
            bus.connection("kerberos")
        with pytest.raises(EmulatorError, match="'/event/X__e' is not defined"):
            bus.publish("/event/X__e", [{}])
        with pytest.raises(EmulatorError, match="'X__e' is not defined"):
            bus.define_channel("/event/X__chn", ["X__e"])
        bus.define_entity("Account", {})
        with pytest.raises(EmulatorError, match="takes no published events"):
            bus.publish("Account", [{}])
        with pytest.raises(TimeoutError, match="0 streams are open"):
            bus.wait_open_streams(1, timeout=0.01)


def test_connections_of_every_kind() -> None:
    """Each login's connection has what its client needs and nothing else."""
    with Emulator() as bus:
        plain = bus.connection()
        assert (plain["conn_type"], plain["host"]) == ("sfevents", bus.my_domain_url)
        host, _, port = bus.endpoint.rpartition(":")
        assert plain["port"] == int(port)
        assert plain["extra"] == {
            "auth": "client_credentials",
            "pubsub_endpoint": host,
            "plaintext": True,
        }
        signed = bus.connection("jwt_bearer")
        assert (signed["host"], signed["password"]) == (bus.login_url, "")
        assert signed["extra"]["private_key"].startswith("-----BEGIN PRIVATE KEY-----")
        ready = bus.connection("session")["extra"]
        assert (ready["instance_url"], ready["org_id"]) == (bus.my_domain_url, bus.org.org_id)
        assert json.loads(bus.connection_json()) == plain
    with Emulator(tls=True) as bus:
        extra = bus.connection()["extra"]
        assert Path(extra["ca_file"]).read_text().startswith("-----BEGIN CERTIFICATE")
        assert "plaintext" not in extra


def test_a_stream_fails_after_so_many_events(talk: Talk) -> None:
    """A stream fails after exactly the ordered events; the next one works."""
    with Emulator(knobs=QUICK) as bus:
        topic = bus.define_event("Order__e", ORDER)
        bus.publish(topic, [{"Number__c": str(n)} for n in range(50)])
        bus.fail_next("Subscribe", error_code="service.unavailable", after=23)

        async def scenario(client: Any) -> tuple[list[Any], Any, int]:
            stream = await client.subscribe(topic)
            events = await stream.take(23)
            refused = await client.refused(stream.read())
            return events, refused, len(await (await client.subscribe(topic)).take(50))

        events, refused, later = talk(bus, scenario)
        assert (len(events), refused.code, refused.status, later) == (
            23,
            "service.unavailable",
            "INTERNAL",
            50,
        )
        assert bus.subscriptions[0].ended == "INTERNAL"


def test_unary_calls_and_logins_fail_on_demand(talk: Talk, http: Http) -> None:
    """The next call fails with the ordered code or status; the one after it works."""
    with Emulator() as bus:
        topic = bus.define_event("Order__e", ORDER)
        bus.fail_next("GetTopic", error_code="topic.api.unavailable")
        bus.fail_next("GetSchema", status="UNAVAILABLE")
        bus.fail_next("userinfo")

        async def scenario(client: Any) -> tuple[Any, Any, Any]:
            coded = await client.refused(client.get_topic(topic))
            bare = await client.refused(client.get_schema(bus.schema_id(topic)))
            return coded, bare, await client.get_topic(topic)

        coded, bare, info = talk(bus, scenario)
        assert (coded.code, coded.status) == ("topic.api.unavailable", "UNAVAILABLE")
        assert (bare.code, bare.status, bare.trailers.get("error-code")) == (
            "",
            "UNAVAILABLE",
            None,
        )
        assert info.topic_name == topic
        assert http(f"{bus.login_url}/services/oauth2/userinfo").status == 500
        assert http(f"{bus.login_url}/services/oauth2/userinfo").status == 403


def test_a_defect_of_the_emulator_fails_the_test(talk: Talk, http: Http) -> None:
    """check() raises an error inside a servicer or an HTTP handler."""
    with Emulator() as bus:
        topic = bus.define_event("Order__e", ORDER)
        bus.publish(topic, [{}])
        bus.org.bus.schema = None  # type: ignore[method-assign, assignment]

        async def scenario(client: Any) -> Any:
            return await client.refused(client.get_schema("x"))

        with pytest.raises(EmulatorError, match="TypeError"):
            talk(bus, scenario)
    with Emulator() as bus:
        bus.define_event("Order__e", ORDER)
        bus.org.bus.retained = lambda *_: 1 // 0  # type: ignore[method-assign, assignment]
        token = {"Authorization": f"Bearer {bus.token}"}
        assert http(f"{bus.my_domain_url}/emulator/topics", headers=token).status == 500
        with pytest.raises(EmulatorError, match="ZeroDivisionError"):
            bus.check()


def test_the_book_is_a_copy(talk: Talk) -> None:
    """Entries read from the call log do not change afterwards."""
    with Emulator(knobs=QUICK) as bus:
        topic = bus.define_event("Order__e", ORDER)
        bus.publish(topic, [{"Number__c": "1"}] * 2)

        async def scenario(client: Any) -> tuple[Any, Any]:
            stream = await client.subscribe(topic, 1)
            await stream.take(1)
            [before] = bus.subscriptions
            await stream.ask(1)
            await stream.take(1)
            [after] = bus.subscriptions
            return before, after

        before, after = talk(bus, scenario)
        assert (before.delivered, len(before.requests)) == (1, 1)
        assert (after.delivered, len(after.requests)) == (2, 2)
        assert (after.client, after.username) == ("", bus.org.username)
        assert after.requests[0].replay_preset == "EARLIEST"
