"""Every RPC checks the three headers; tokens expire, are revoked, and belong to one org."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from airflow_provider_sfevents.emulator import Emulator, Knobs

Talk = Callable[..., Any]
TOPIC = "/event/Order__e"


def _headers(bus: Emulator, **changed: str) -> dict[str, str]:
    extra = bus.connection("session")["extra"]
    good = {
        "accesstoken": extra["session_token"],
        "instanceurl": extra["instance_url"],
        "tenantid": extra["org_id"],
    }
    return {name: value for name, value in {**good, **changed}.items() if value}


async def _refused(client: Any) -> Any:
    return await client.refused(client.get_topic(TOPIC))


def test_tokens_end(talk: Talk) -> None:
    """A token ends by revocation, by expiry of all, and after two idle hours.

    Until then it is accepted, also with a slash at the end of the instance URL.
    """
    with Emulator() as bus:
        bus.define_event("Order__e", {})
        headers = _headers(bus, instanceurl=f"{bus.my_domain_url}/")
        for _ in range(3):
            bus.clock.advance(hours=1.5)
            assert talk(bus, lambda client: client.get_topic(TOPIC), headers=headers)
        bus.clock.advance(hours=2.1)
        assert talk(bus, _refused, headers=headers).code == "service.auth.error"
        headers = _headers(bus)
        bus.revoke(headers["accesstoken"])
        assert talk(bus, _refused, headers=headers).code == "service.auth.error"
        headers = _headers(bus)
        bus.expire_tokens()
        assert talk(bus, _refused, headers=headers).code == "service.auth.error"


def test_orgs_do_not_see_each_other(talk: Talk) -> None:
    """Two orgs of one emulator have separate topics, ids, events and counts."""
    with Emulator(knobs=Knobs(half_close_seconds=0.01)) as bus:
        other = bus.add_org("other")
        bus.define_event("Order__e", {"N__c": "Text"})
        bus.publish(TOPIC, [{"N__c": "1"}] * 3)

        async def refused(client: Any) -> Any:
            return await client.refused(client.get_topic(TOPIC))

        assert talk(bus, refused, org=other).code == "topic.meta.permission"
        other.define_event("Order__e", {"N__c": "Text"})
        other.publish(TOPIC, [{"N__c": "2"}])

        async def scenario(client: Any) -> list[Any]:
            return list(await (await client.subscribe(TOPIC)).take(1))

        [event] = talk(bus, scenario, org=other)
        assert event.event.id == other.events(TOPIC)[0]["id"]
        assert (bus.deliveries(), other.deliveries()) == (0, 1)
        assert other.instance_url != bus.my_domain_url
        assert other.org_id != bus.org.org_id


def test_rpc_ids_as_hex(talk: Talk) -> None:
    """A knob makes rpc ids hex."""
    with Emulator(knobs=Knobs(rpc_id_style="hex32")) as bus:
        refused = talk(bus, _refused)
        assert len(refused.trailers["rpc-id"]) == 32
