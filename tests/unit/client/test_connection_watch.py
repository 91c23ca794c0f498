"""The time that a lost connection may take to come back."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.client.connection_watch import ConnectionWatch
from airflow_provider_sfevents.exceptions import ConfigurationError


def test_the_timeout_counts_from_the_loss() -> None:
    """The time counts from the first moment without a connection, not from later ones."""
    watch = ConnectionWatch(10.0, 0.0)
    watch.note(9.0, is_connected=True)
    watch.note(50.0, is_connected=False)
    watch.note(59.0, is_connected=False)
    assert (watch.is_over(59.0), watch.seconds_left(59.0)) == (False, 1.0)
    assert watch.is_over(60.0)


def test_a_connection_that_came_back_counts_anew() -> None:
    """A reconnect forgets the earlier loss."""
    watch = ConnectionWatch(10.0, 0.0)
    watch.note(9.0, is_connected=True)
    assert not watch.is_over(1000.0)
    assert watch.seconds_left(1000.0) == 10.0


def test_a_first_connection_has_the_same_time() -> None:
    """A connection that was never made counts as lost from the beginning."""
    assert ConnectionWatch(10.0, 5.0).is_over(15.0)


def test_no_timeout_is_never_over() -> None:
    """`None` waits without a limit."""
    watch = ConnectionWatch(None, 0.0)
    watch.note(1e9, is_connected=False)
    assert not watch.is_over(2e9)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_timeout_that_is_not_positive_is_refused(seconds: float) -> None:
    """A connection needs time."""
    with pytest.raises(ConfigurationError, match="connection_timeout"):
        ConnectionWatch(seconds, 0.0)
