"""Rules of managed subscriptions, on plain values."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.emulator.managed import subscription_rules
from airflow_provider_sfevents.emulator.managed.subscription_config import ManagedRefusedError
from airflow_provider_sfevents.emulator.managed.subscription_registry import SubscriptionSlots


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"developer_name": "2Lake"}, "begin with a letter"),
        ({"developer_name": "La__ke"}, "single underscores"),
        ({"developer_name": ""}, "begin with a letter"),
        ({"developer_name": "Lake!"}, "letters, digits"),
        ({"default_replay": "CUSTOM"}, "default_replay: 'CUSTOM' is not one of LATEST, EARLIEST"),
        ({"error_recovery_replay": ""}, "error_recovery_replay"),
        ({"state": "PAUSE"}, "You can create a managed event subscription state field only to RUN"),
    ],
)
def test_what_setup_refuses(values: dict[str, str], said: str) -> None:
    """Names, replays and states are checked; PAUSE is in the enum and refused."""
    with pytest.raises(ManagedRefusedError, match=said) as error:
        subscription_rules.check_values(values)
    assert error.value.code == "INVALID_INPUT"


@pytest.mark.parametrize(
    "topic",
    [
        "/event/Order__e",
        "/event/All__chn",
        "/data/ChangeEvents",
        "/data/AccountChangeEvent",
        "/data/Employee__ChangeEvent",
        "/data/Some__chn",
    ],
)
def test_topics_that_can_be_managed(topic: str) -> None:
    """The documented topics are accepted if the org has them."""
    subscription_rules.check_topic(topic, [topic])
    with pytest.raises(ManagedRefusedError, match="does not exist in this org; it has none"):
        subscription_rules.check_topic(topic, [])


@pytest.mark.parametrize("topic", ["", "Order__e", "/event/LoginEventStream", "/topic/Order__e"])
def test_topics_that_cannot(topic: str) -> None:
    """Standard events and other topics are refused, known or not."""
    with pytest.raises(ManagedRefusedError, match="is not one of /event/X__e"):
        subscription_rules.check_topic(topic, [topic])


def test_a_name_is_taken_once_and_an_org_is_full() -> None:
    """A developer name is unique, and an org has at most 200 subscriptions."""
    with pytest.raises(ManagedRefusedError, match="is in use") as taken:
        subscription_rules.check_new("Lake", {"Lake"}, 200)
    with pytest.raises(ManagedRefusedError, match="its 2 managed") as full:
        subscription_rules.check_new("Lake", {"Sea", "Pond"}, 2)
    assert (taken.value.code, full.value.code) == ("DUPLICATE_DEVELOPER_NAME", "LIMIT_EXCEEDED")


@pytest.mark.parametrize(
    ("change", "code"),
    [({"topic": "/event/A__e"}, "INVALID_INPUT"), ({"id": "18x"}, "INVALID_FIELD")],
)
def test_what_cannot_be_changed(change: dict[str, str], code: str) -> None:
    """The topic is fixed, and unknown fields are refused."""
    with pytest.raises(ManagedRefusedError) as error:
        subscription_rules.check_changes(change)
    assert error.value.code == code


def test_a_slot_is_held_after_its_client_left() -> None:
    """A slot stays taken for a time after its client left, then is free."""
    slots = SubscriptionSlots()
    assert slots.take("a", 0.0)
    assert not slots.take("a", 1_000.0)
    assert slots.take("b", 0.0)
    slots.leave("a", 10.0, hold=15.0)
    assert (slots.taken("a", 24.9), slots.taken("a", 25.0)) == (True, False)
    assert not slots.take("a", 24.9)
    assert slots.take("a", 25.0)
