"""A user's mistake ends a sensor at once in the worker, with the message of the fetching task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
    TaskDeferralError,
)
from typing_extensions import override

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor
from tests.integration.sensors.test_sensor import MODES, each_mode

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.emulator import Emulator
    from tests.integration.sensors.conftest import Waits


@each_mode
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"topic": "/event/Oder__e"}, "/event/Oder__e"),
        ({"conn_id": "salesforce"}, "'salesforce' is not defined"),
        ({"staging": "nosuch://bucket/path"}, "cannot be opened"),
        ({"staging": "None"}, "staging='None' is neither a URL nor an absolute path"),
        ({"staging": "file://lake"}, "staging='file://lake' is neither a URL nor an absolute path"),
        ({"staging": "/lake/[x]"}, "staging='/lake/[x]' holds '[', and Spark reads"),
        ({"position_store": "no.such.store"}, "'no.such.store' is not a store"),
    ],
    ids=[
        "topic",
        "connection",
        "staging",
        "a template without a value",
        "a slash less",
        "pattern",
        "store",
    ],
)
def test_a_mistake_is_not_waited_out(
    waits: Waits, bus: Emulator, mode: dict[str, Any], arguments: dict[str, Any], said: str
) -> None:
    """A mistake fails the task for good before anything is deferred or delivered."""
    waits.monkeypatch.chdir(waits.staging.parent)  # a relative folder is not made in the checkout
    waits.publish(1)
    with pytest.raises(AirflowFailException) as raised:
        waits.wait(**{"timeout": 20, **mode, **arguments})
    assert said in str(raised.value)
    assert waits.deferrals == []
    assert bus.deliveries() == 0


@each_mode
def test_soft_fail_is_not_for_mistakes(waits: Waits, mode: dict[str, Any]) -> None:
    """A mistake fails the task even with `soft_fail`; the message does not show the secret."""
    waits.connect(password="not-the-secret")
    with pytest.raises(AirflowFailException, match="The consumer secret is wrong") as raised:
        waits.wait(timeout=20, soft_fail=True, **mode)
    assert "not-the-secret" not in str(raised.value)


def test_soft_fail_is_not_for_what_goes_wrong_meanwhile(waits: Waits) -> None:
    """An error in the triggerer fails the task even with `soft_fail`."""
    waits.between = lambda: waits.connect(password="not-the-secret")
    with pytest.raises(AirflowFailException, match="The consumer secret is wrong"):
        waits.wait(timeout=20, deferrable=True, soft_fail=True)
    assert len(waits.deferrals) == 1


@pytest.mark.parametrize(
    ("error", "raised"),
    [("Trigger failure", TaskDeferralError), ("Trigger timeout", AirflowSkipException)],
)
def test_soft_fail_is_not_for_a_trigger_that_cannot_run(
    waits: Waits, error: str, raised: type[Exception]
) -> None:
    """If the triggerer cannot run the trigger, `soft_fail` does not hide it; a timeout skips."""
    sensor, context = waits.prepare(SfEventsSensor, task_id="wait", deferrable=True, soft_fail=True)
    with pytest.raises(raised):
        sensor.resume_execution("__fail__", {"error": error}, context)


class AwayOnce(dict[str, str]):
    """Positions of a store that is out of reach when it is asked for the first time."""

    asked = 0

    @override
    def get(self, key: str, default: Any = None) -> Any:
        self.asked += 1
        if self.asked == 1:
            raise TransportError("The store is away.")
        return super().get(key, default)


def test_soft_fail_counts_after_an_error_that_has_passed(waits: Waits) -> None:
    """With `silent_fail` a poke may fail; a timeout after later pokes skips as usual."""
    waits.positions = AwayOnce()
    with pytest.raises(AirflowSkipException):
        waits.wait(timeout=3, poke_interval=0.05, soft_fail=True, silent_fail=True)
    assert waits.positions.asked > 1


@each_mode
def test_never_fail_skips(waits: Waits, mode: dict[str, Any]) -> None:
    """With `never_fail` the task is skipped, as Airflow's sensors are, and the reason logged."""
    waits.connect(password="not-the-secret")
    with pytest.raises(AirflowSkipException) as raised:
        waits.wait(timeout=20, never_fail=True, **mode)
    assert "The consumer secret is wrong" in str(raised.value.__cause__)


@each_mode
def test_a_staging_area_that_the_worker_cannot_write(
    waits: Waits, tmp_path: Path, mode: dict[str, Any]
) -> None:
    """A staging area that cannot be written is an error before any delivery."""
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(AirflowException, match="`staging`"):
        waits.wait(staging=(tmp_path / "file" / "staging").as_uri(), timeout=20, **mode)


def test_credentials_that_go_wrong_meanwhile(waits: Waits) -> None:
    """Credentials refused in the triggerer fail the task for good, with one message."""
    waits.between = lambda: waits.connect(password="not-the-secret")
    with pytest.raises(AirflowFailException, match="The consumer secret is wrong"):
        waits.wait(timeout=20, deferrable=True)
    assert len(waits.deferrals) == 1


@pytest.mark.parametrize("fallback", ["fail", "earliest"])
def test_a_replay_id_that_is_refused(waits: Waits, bus: Emulator, fallback: str) -> None:
    """A refused replay id fails in the worker, or continues by `replay_fallback`."""
    waits.publish(1)
    bus.reset_replay_ids()
    waits.publish(2)

    def wait(mode: dict[str, Any]) -> Any:
        return waits.wait(
            min_events=2,
            timeout=20,
            initial_replay="00000000000000000001",
            replay_fallback=fallback,
            **mode,
        )

    for mode in MODES.values():
        if fallback == "fail":
            with pytest.raises(AirflowFailException, match="the task's initial_replay"):
                wait({"soft_fail": True, **mode})
            [position] = waits.positions.values()
            assert '"batch_number": 0' in position
        else:
            assert wait(mode)["events"] >= 2
