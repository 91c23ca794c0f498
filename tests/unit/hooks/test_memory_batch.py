"""Decoding of an event in memory."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from airflow_provider_sfevents.hooks.memory_batch import Event


def test_a_schema_with_which_a_few_bytes_could_fill_the_memory_is_refused() -> None:
    """A schema by which few bytes could fill the memory is refused by name, undecoded."""
    fields = [{"name": "A", "type": {"type": "array", "items": "null"}}]
    event = Event(
        id="",
        replay_id="0a",
        schema_id="s1",
        schema=json.dumps({"type": "record", "name": "X__e", "fields": fields}),
        payload=b"\x80\x80\x80\x01\x00",
        received_at=datetime(2026, 11, 1, tzinfo=UTC),
    )

    with pytest.raises(ValueError, match="schema s1 has a list of items that take no bytes"):
        event.decode()
