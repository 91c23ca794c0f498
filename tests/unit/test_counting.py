"""Counts in messages."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.counting import counted


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 events"), (1, "1 event"), (2, "2 events"), (1000, "1000 events")]
)
def test_one_of_a_thing_is_singular(count: int, said: str) -> None:
    """A count of one has the singular, any other the plural."""
    assert counted(count, "event") == said


def test_a_plural_of_its_own() -> None:
    """A noun with an irregular plural uses it."""
    assert [counted(n, "delivery", "deliveries") for n in (1, 2)] == ["1 delivery", "2 deliveries"]
