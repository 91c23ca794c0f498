from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    SfEventsError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.error_codes import PREFIX
from airflow_provider_sfevents.pubsub.managed import managed_rules as rules
from airflow_provider_sfevents.pubsub.managed.managed_rules import (
    SlotTakenError,
    SubscriptionConfig,
)
from airflow_provider_sfevents.pubsub.reconnect import Retry
from airflow_provider_sfevents.pubsub.timeouts import Timeouts

TOPIC = "/event/Order__e"
GOOD = SubscriptionConfig(
    id="18x000000000001AAA",
    developer_name="Orders",
    topic=TOPIC,
    default_replay="LATEST",
    error_recovery_replay="EARLIEST",
    state="RUN",
)
TAKEN = TransportError("taken", f"{PREFIX}managed.subscription.already.active")
UNKNOWN = TransportError("unknown", f"{PREFIX}managed.subscription.developer.name.not.found")


@pytest.mark.parametrize("reference", ["Orders", "O_2", "18x000000000001", "18x000000000001AAA"])
def test_names_and_ids_are_taken(reference: str) -> None:
    """Developer names and ids are accepted, and an id is never taken for a name."""
    assert rules.check_reference(reference) == reference
    assert rules.is_id(reference) == reference.startswith("18x")


@pytest.mark.parametrize(
    "reference", ["", "18x", "18x0000000001", "1Orders", "O__2", "O_", "Orders'--", "é", None, 7]
)
def test_what_names_none_is_refused(reference: object) -> None:
    """Text that is no name or id is refused, so it never enters a query."""
    with pytest.raises(ConfigurationError, match="names no managed event subscription"):
        rules.check_reference(reference)


def test_a_good_one_is_fit() -> None:
    """A subscription that runs, has the topic, and recovers at EARLIEST passes the check."""
    rules.check_config(GOOD, TOPIC, allow_latest_recovery=False)
    rules.check_config(
        replace(GOOD, error_recovery_replay="LATEST"), TOPIC, allow_latest_recovery=True
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"topic": "/event/Other__e"}, "has topic /event/Other__e"),
        ({"state": "STOP"}, "has state STOP"),
        ({"error_recovery_replay": "LATEST"}, "errorRecoveryReplay LATEST"),
    ],
    ids=["topic", "stopped", "recovery"],
)
def test_one_that_is_not_fit_is_refused(change: dict[str, str], said: str) -> None:
    """The error of an unfit subscription names the subscription and its fault."""
    with pytest.raises(ConfigurationError, match=said) as caught:
        rules.check_config(replace(GOOD, **change), TOPIC, allow_latest_recovery=False)
    assert "Orders (18x000000000001AAA)" in str(caught.value)


def step(error: SfEventsError, waited: float, tries: int = 0) -> Retry | None:
    timeouts = Timeouts(slot_seconds=60, propagation_seconds=300)
    return rules.next_step(
        error, tries=tries, renewed=False, chance=0.0, waited_seconds=waited, timeouts=timeouts
    )


def test_patience_is_by_what_is_waited_for() -> None:
    """A slot is waited for 60 s and a new subscription 300 s, by the clock and not by tries."""
    assert step(TAKEN, 0, tries=50) == Retry(wait_seconds=2.0)
    assert step(TAKEN, 59) is not None
    assert step(TAKEN, 60) is None
    assert step(UNKNOWN, 60, tries=50) == Retry(wait_seconds=10.0)
    assert step(UNKNOWN, 300) is None
    assert step(TransportError("away"), 0, tries=50) is None
    assert step(ConfigurationError("stopped"), 0) is None


def test_a_taken_slot_names_the_rule_of_one_client() -> None:
    """The error of a taken slot names the rule of one client and the time waited."""
    told = rules.explained(TAKEN, "Orders", 61.2)
    assert isinstance(told, SlotTakenError)
    assert "waited 61 s" in str(told)
    assert told.error_code == TAKEN.error_code
    assert "does not know it yet" in str(rules.explained(UNKNOWN, "Orders", 301))
    other = ConfigurationError("stopped")
    assert rules.explained(other, "Orders", 0) is other


@pytest.mark.parametrize(
    ("known", "count"),
    [
        ({}, 0),
        ({b"1": "a"}, 1),
        ({b"1": "a", b"2": "b", b"3": "c", b"9": "z"}, 3),
        ({b"2": "b", b"3": "c"}, 0),
        ({b"1": "a", b"3": "c"}, 1),
        ({b"1": "another", b"2": "b"}, 0),
    ],
    ids=["none", "first", "all", "not the first", "a gap", "another event of that replay id"],
)
def test_what_is_known_is_left_out_from_the_first_on(known: dict[bytes, str], count: int) -> None:
    """Known events are counted by replay id and event id together, up to the first new one."""
    assert rules.leading_known([b"1", b"2", b"3"], ["a", "b", "c"], known) == count


@pytest.mark.parametrize(
    ("answered", "about"),
    [("a", ("a",)), ("c", ("a", "b", "c")), ("x", ())],
    ids=["the first", "several at once", "unknown"],
)
def test_one_answer_may_be_for_several_commits(answered: str, about: tuple[str, ...]) -> None:
    """An answer settles its commit and those sent before it."""
    assert rules.answered_commits(["a", "b", "c"], answered) == about


@pytest.mark.parametrize("received", [0, 1])
@pytest.mark.parametrize("kept", [0, 1])
def test_a_keepalive_is_committed_only_before_the_first_event(received: int, kept: int) -> None:
    """A keepalive behind events is not committed: after a crash those events would be lost."""
    assert rules.may_commit_keepalive(received=received, kept=kept) == (not received and not kept)


def test_the_place_is_committed_again_in_time() -> None:
    """The replay id, if any, is committed again well within the service's limit of 1,800 s."""
    assert not rules.is_commit_due(599, "01")
    assert rules.is_commit_due(600, "01")
    assert not rules.is_commit_due(1700, "")
