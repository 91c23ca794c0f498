"""The last error of a watcher, in an Airflow Variable."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from airflow.sdk.log import mask_secret

from airflow_provider_sfevents.hooks.outgoing.watch_errors import keep_watch_error
from airflow_provider_sfevents.positions.watch_error import WatchError, watch_error_key
from tests.unit.positions.building import TOPIC

if TYPE_CHECKING:
    from tests.unit.positions.supervisor import Supervisor

AT = datetime(2026, 1, 1, tzinfo=UTC)
LATER = AT + timedelta(minutes=5)
KEY = "sfevents_watch.orders.event.Order__e"


def test_an_error_is_kept_until_the_watcher_listens_again(supervisor: Supervisor) -> None:
    """The error stays with the time at which it ended; a later end does not change that."""
    keep_watch_error("orders", TOPIC, "", AT)
    assert supervisor.variables == {}
    keep_watch_error("orders", TOPIC, "No such topic.\n  Create it.", AT)
    error = WatchError.from_json(supervisor.variables[KEY])
    assert error == WatchError(message="No such topic. Create it.", at=AT.isoformat())
    keep_watch_error("orders", TOPIC, "", LATER)
    keep_watch_error("orders", TOPIC, "", LATER + timedelta(hours=1))
    ended = WatchError.from_json(supervisor.variables[KEY])
    assert ended == WatchError(
        message="No such topic. Create it.", at=AT.isoformat(), ended_at=LATER.isoformat()
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_an_error_has_no_secret_and_is_short(supervisor: Supervisor) -> None:
    """Secrets that Airflow masks in logs are masked here, too."""
    mask_secret("s3cr3t-of-the-org")
    keep_watch_error("orders", TOPIC, f"Refused: s3cr3t-of-the-org. {'x' * 1000}", AT)
    text = supervisor.variables[KEY]
    assert "s3cr3t" not in text
    assert len(text) < 600


def test_an_api_server_that_does_not_answer_stops_no_watcher(supervisor: Supervisor) -> None:
    """A record that cannot be written is logged."""
    supervisor.out_of_order = True
    keep_watch_error("orders", TOPIC, "No such topic.", AT)
    assert supervisor.variables == {}


def test_other_records_are_no_errors() -> None:
    """A Variable that a user has changed is not shown."""
    assert watch_error_key("orders", TOPIC) == KEY
    for text in ("", "[]", "{}", "null"):
        assert WatchError.from_json(text) is None
