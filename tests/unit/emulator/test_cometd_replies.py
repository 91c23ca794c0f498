"""Advice of the Streaming API that only several clients of one browser get."""

from __future__ import annotations

from airflow_provider_sfevents.emulator.cometd import replies


def test_advice_for_several_clients_in_one_browser() -> None:
    """The advice for several clients in a browser asks for two seconds between connects."""
    assert replies.first_advice(110_000, multiple_clients=True) == {
        "interval": 2000,
        "multiple-clients": True,
        "reconnect": "retry",
        "timeout": 110_000,
    }
