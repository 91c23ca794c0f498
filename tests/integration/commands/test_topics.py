"""`airflow sfevents topics` and `limits`, for people and for programs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import ChannelMember, Emulator, Knobs
from tests.integration.emulator.resting import Rest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.commands.conftest import Hands


@pytest.fixture(scope="module")
def org() -> Iterator[Emulator]:
    with Emulator(knobs=Knobs(delivery_allocation=100)) as bus:
        bus.define_event("Order__e", {"Amount__c": "Double"})
        bus.define_entity("Account", {"Name": "Text"})
        bus.define_entity("Case", {"Subject": "Text"}, selected=False)
        account = ChannelMember(topic="Account", enriched_fields=("Name",), filter="Name != null")
        bus.define_channel("/data/Own__chn", [account])
        pushed = {"Name": "Cases", "Query": "SELECT Id FROM Account", "ApiVersion": 64.0}
        assert Rest(bus).ask("POST", "/sobjects/PushTopic", pushed).status == 201
        assert Rest(bus).ask("POST", "/sobjects/StreamingChannel", {"Name": "/u/News"}).body
        yield bus
        bus.check()


@pytest.fixture
def ask(hands: Hands, org: Emulator, monkeypatch: pytest.MonkeyPatch) -> Hands:
    monkeypatch.setenv("AIRFLOW_CONN_SFEVENTS_DEFAULT", json.dumps(org.connection()))
    return hands


def rows(hands: Hands, *words: str) -> list[dict[str, Any]]:
    """Output for a program."""
    answer = hands.airflow("sfevents", *words, "-o", "json")
    assert answer.refused == ""
    found: list[dict[str, Any]] = json.loads(answer.said)
    return found


def test_topics_are_listed(ask: Hands) -> None:
    """Each topic has a row; unselected objects only with `--all`."""
    listed = rows(ask, "topics", "list")
    assert [(one["topic"], one["kind"], one["selected"], one["members"]) for one in listed] == [
        ("/event/Order__e", "platform event", None, []),
        ("/data/AccountChangeEvent", "change events", True, []),
        ("/data/ChangeEvents", "channel of change events", None, ["AccountChangeEvent"]),
        ("/data/Own__chn", "channel of change events", None, ["AccountChangeEvent"]),
        ("/topic/Cases", "PushTopic", None, []),
        ("/u/News", "generic channel", None, []),
    ]
    every = {one["topic"]: one["selected"] for one in rows(ask, "topics", "list", "--all")}
    assert every["/data/CaseChangeEvent"] is False
    assert "/event/Order__e" in ask.airflow("sfevents", "topics", "list").said


def test_a_topic_is_described(ask: Hands, org: Emulator) -> None:
    """A topic is a table of fields with permissions for people, and an object for programs."""
    said = ask.airflow("sfevents", "topics", "describe", "/event/Order__e").words
    assert "/event/Order__e: platform event." in said
    assert "may subscribe and publish; deliveries count" in said
    assert "Amount__c | double | Double" in said
    assert f"Order__e: schema {org.schema_id('Order__e')}" in said
    [whole] = rows(ask, "topics", "describe", "/event/Order__e")
    assert whole["events"][0]["fields"][2]["name"] == "Amount__c"
    shown = ask.airflow("sfevents", "topics", "describe", "/event/Order__e", "-o", "yaml").said
    assert "kind: platform event" in shown
    assert "!!python" not in shown


def test_a_channel_is_described(ask: Hands) -> None:
    """A channel is described with filter and enriched fields of its members."""
    said = ask.airflow("sfevents", "topics", "describe", "/data/Own__chn").words
    assert "may subscribe; deliveries count" in said
    assert "only where Name != null; always with Name" in said


def test_limits_are_shown(ask: Hands) -> None:
    """The allowance of deliveries is the first limit."""
    first, *others = rows(ask, "limits")
    assert (first["limit"], first["most"], first["left"]) == (
        "DailyDeliveredPlatformEvents",
        100,
        100,
    )
    assert "HourlyPublishedPlatformEvents" in [one["limit"] for one in others]


@pytest.mark.parametrize("transport", ["pubsub", "streaming"])
def test_events_are_printed_as_they_come(ask: Hands, org: Emulator, transport: str) -> None:
    """Each event is one line of JSON, by either API."""
    org.publish("/event/Order__e", [{"Amount__c": 1.0}, {"Amount__c": 2.0}])
    words = ("--from", "earliest", "--max-events", "2", "--transport", transport)
    answer = ask.airflow("sfevents", "tail", "/event/Order__e", *words)
    assert answer.refused == ""
    lines = [json.loads(line) for line in answer.said.splitlines() if line.startswith("{")]
    assert [one["data"]["payload"]["Amount__c"] for one in lines] == [1.0, 2.0]
    assert {one["channel"] for one in lines} == {"/event/Order__e"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("topics", "describe", "Order__e"), "'Order__e' is no topic of Salesforce"),
        (("topics", "describe", "/u/Notices"), "exists only over the Streaming API"),
        (("tail", "Order__e"), "'Order__e' is no topic of Salesforce"),
        (("tail", "/event/Order__e", "--from", "soon"), "'soon' is no replay id"),
        (("tail", "/event/Order__e", "--max-events", "0"), "--max-events is 0"),
        (("tail", "/u/Notices", "--transport", "pubsub"), "transport='pubsub' does not have"),
        (("topics", "describe", "/event/Oder__e"), "/event/Oder__e"),
        (("topics", "list", "--conn-id", "nowhere"), "'nowhere' is not defined"),
        (("limits", "--conn-id", "nowhere"), "'nowhere' is not defined"),
    ],
)
def test_a_refusal_is_one_message(ask: Hands, words: tuple[str, ...], said: str) -> None:
    """An error ends the command with one message."""
    assert said in ask.airflow("sfevents", *words).refused
