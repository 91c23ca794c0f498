"""What the suite asks of the environment before it goes to a real org."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from airflow_provider_sfevents.emulator import Knobs
from tests.contract import deviations
from tests.contract.orgs import CONNECTION, TOPIC, OrgUnderTest, Times, check_given, given

GOOD = {
    CONNECTION: json.dumps({"host": "https://x.my.salesforce.com", "extra": {}}),
    TOPIC: "/event/X__e",
}


@pytest.mark.parametrize("missing", [CONNECTION, TOPIC])
def test_what_is_missing_is_named(missing: str) -> None:
    """Before anything is asked of an org."""
    environment = {name: value for name, value in GOOD.items() if name != missing}
    with pytest.raises(pytest.UsageError, match=f"^{missing} must be set"):
        check_given(environment)


@pytest.mark.parametrize("wrong", ["S3CRET", '"S3CRET"', '{"password": "S3CRET"}'])
def test_a_connection_that_cannot_be_read_is_not_shown(wrong: str) -> None:
    """It may hold secrets all the same."""
    with pytest.raises(pytest.UsageError, match="not the JSON") as error:
        check_given({**GOOD, CONNECTION: wrong})
    assert "S3CRET" not in str(error.value)


def test_what_an_org_does_not_have_is_skipped_by_name() -> None:
    """Who reads the report knows what to set."""
    with given(GOOD) as org:
        with pytest.raises(pytest.skip.Exception, match="SFEVENTS_ORG_ENTITY is not given"):
            org.need("entity")
        with pytest.raises(pytest.skip.Exception, match="SFEVENTS_ORG_PATIENT=1"):
            org.wait_long(1800)
        with pytest.raises(pytest.skip.Exception, match="not on a real org: it takes"):
            org.set_up("it takes days").__enter__()


def test_failures_do_not_show_secrets() -> None:
    """The org is an argument of each test, which pytest prints."""
    connection = {"password": "S3CRET", "extra": {"session_token": "S3CRET"}}
    with given({**GOOD, CONNECTION: json.dumps(connection)}) as org:
        assert isinstance(org, OrgUnderTest)
        assert "S3CRET" not in repr(org) + repr(org.door)


@pytest.mark.parametrize("name", deviations.EMULATOR)
def test_a_deviation_is_that_of_a_test(name: str) -> None:
    """A renamed test does not leave its deviation behind."""
    module, _, function = name.partition("::")
    text = (Path(__file__).parent / f"{module}.py").read_text()
    assert f"def {function.partition('[')[0]}(" in text


# What `Knobs` has where two sources disagree: the value, and what the contract suite or the sources say of it.
DEFAULTS = {
    "idle_close_seconds": 60,
    "publish_idle_seconds": 1800,
    "keepalive_seconds": 120,
    "over_limit": "clamp",
    "max_outstanding": 100,
    "unknown_topic": "PERMISSION_DENIED",
    "service_unavailable": "INTERNAL",
    "change_event_ids": True,
    "replay_id_bytes": 10,
    "snapshot_symbol": True,
    "jwt_max_seconds": 300,
    "expiry_ends_streams": False,
    "managed_id_and_name": "refuse",
    "cometd_replay_error_spaces": 2,
    "cometd_time_scale": 1,
    "cometd_min_version": 23,
    "half_close_seconds": 0.3,
    "publish_keepalive_seconds": 270,
    "commit_deadline_seconds": 1800,
    "half_open_seconds": 900,
    "retention_hours": 72,
    "max_event_bytes": 1024 * 1024,
    "max_request_bytes": 4 * 1024 * 1024,
    "max_response_bytes": 3 * 1024 * 1024,
    "max_streams_per_connection": 1000,
    "max_managed": 200,
    "overflow_changes": 100_000,
    "token_idle_hours": 2,
    "delivery_allocation": 50_000,
    "publish_allocation": 250_000,
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_the_emulators_defaults_are_the_documented_ones(name: str) -> None:
    """Times are shortened in this suite, and some limits lowered.

    What they are otherwise is held here.
    """
    assert getattr(Knobs(), name) == DEFAULTS[name]


@pytest.mark.parametrize(
    ("name", "knob"),
    [
        ("keepalive", "keepalive_seconds"),
        ("publish_keepalive", "publish_keepalive_seconds"),
        ("half_close", "half_close_seconds"),
        ("slot_hold", "slot_hold_seconds"),
        ("propagation", "managed_propagation_seconds"),
    ],
)
def test_the_emulator_is_in_time_by_default(name: str, knob: str) -> None:
    """Within what the suite waits for on a real org."""
    assert getattr(Knobs(), knob) <= getattr(Times(), name)


def test_what_only_the_emulator_can_be_made_to_do_is_skipped_with_its_reason() -> None:
    """On a real org nothing is left out silently."""
    with (
        given(GOOD) as org,
        pytest.raises(pytest.skip.Exception, match="not on a real org: a storm"),
    ):
        org.staged("a storm")
