"""Checks of the environment before the suite uses a real org."""

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
    """A missing variable is named before the org is contacted."""
    environment = {name: value for name, value in GOOD.items() if name != missing}
    with pytest.raises(pytest.UsageError, match=f"^{missing} must be set"):
        check_given(environment)


@pytest.mark.parametrize("wrong", ["S3CRET", '"S3CRET"', '{"password": "S3CRET"}'])
def test_a_connection_that_cannot_be_read_is_not_shown(wrong: str) -> None:
    """An unreadable connection is not shown, because it may hold secrets."""
    with pytest.raises(pytest.UsageError, match="not the JSON") as error:
        check_given({**GOOD, CONNECTION: wrong})
    assert "S3CRET" not in str(error.value)


def test_what_an_org_does_not_have_is_skipped_by_name() -> None:
    """A skipped test names the variable to set."""
    with given(GOOD) as org:
        with pytest.raises(pytest.skip.Exception, match="SFEVENTS_ORG_ENTITY is not given"):
            org.need("entity")
        with pytest.raises(pytest.skip.Exception, match="SFEVENTS_ORG_PATIENT=1"):
            org.wait_long(1800)
        with pytest.raises(pytest.skip.Exception, match="not on a real org: it takes"):
            org.set_up("it takes days").__enter__()


def test_failures_do_not_show_secrets() -> None:
    """The org's text form, which pytest prints, has no secrets."""
    connection = {"password": "S3CRET", "extra": {"session_token": "S3CRET"}}
    with given({**GOOD, CONNECTION: json.dumps(connection)}) as org:
        assert isinstance(org, OrgUnderTest)
        assert "S3CRET" not in repr(org) + repr(org.door)


@pytest.mark.parametrize("name", deviations.EMULATOR)
def test_a_deviation_is_that_of_a_test(name: str) -> None:
    """Each deviation belongs to an existing test."""
    module, _, function = name.partition("::")
    text = (Path(__file__).parent / f"{module}.py").read_text()
    assert f"def {function.partition('[')[0]}(" in text


# Defaults of `Knobs` for which two sources disagree: the value, and the reason.
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
    """The knobs that this suite shortens have the documented defaults."""
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
    """The default times are within the suite's waits on a real org."""
    assert getattr(Knobs(), knob) <= getattr(Times(), name)


def test_what_only_the_emulator_can_be_made_to_do_is_skipped_with_its_reason() -> None:
    """A test for the emulator alone is skipped with a reason."""
    with (
        given(GOOD) as org,
        pytest.raises(pytest.skip.Exception, match="not on a real org: a storm"),
    ):
        org.staged("a storm")
