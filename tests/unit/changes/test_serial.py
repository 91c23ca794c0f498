"""Events that are kept, as text."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.changes.ids import addressed, long_id
from airflow_provider_sfevents.spark.changes.serial import from_text, to_text
from tests.unit.changes.building import change, second

EVENT = replace(
    change(
        5,
        "UPDATE",
        "001*",
        "001000000000001AAA",
        nulled=("Phone",),
        diffs=("Description",),
        suspect=True,
    ),
    values={
        "Text": "ä\u2028\r\n",
        "Whole": 2**62,
        "Number": 0.1,
        "Flag": False,
        "At": second(1.5),
        "Day": date(2026, 11, 1),
        "Money": Decimal("12.50"),
        "Bytes": b"\x00\xff",
        "Address": {"City": "Bath", "Since": date(2020, 1, 1), "$date": None},
        "Tags": ["a", {"b": 1}],
    },
)


def test_an_event_is_read_as_it_was_written() -> None:
    """Values of every column type come back with the same type."""
    again = from_text(to_text(EVENT))
    assert again == EVENT
    assert {name: type(value) for name, value in again.values.items()} == {
        name: type(value) for name, value in EVENT.values.items()
    }


def test_a_value_that_no_column_has_is_refused() -> None:
    """A value of a type that no column has is refused."""
    with pytest.raises(TypeError, match="no value of a column"):
        to_text(replace(EVENT, values={"Set": {1}}))


@pytest.mark.parametrize("text", ["", "{}", "[]", json.dumps({"version": 1, "order": 3})])
def test_what_is_no_event_is_refused(text: str) -> None:
    """A text that is no event is refused with the remedy."""
    with pytest.raises(StagingError, match="cannot be read"):
        from_text(text)


def test_another_version_is_refused() -> None:
    """A text of another version is refused."""
    with pytest.raises(StagingError, match="version 2"):
        from_text(to_text(EVENT).replace('"version": 1', '"version": 2'))


def test_ids_are_eighteen_characters() -> None:
    """An id of 15 characters gets its suffix by the published rule; others stay."""
    assert long_id("001Dp00000H8YVW") == "001Dp00000H8YVWIA3"
    assert long_id("001Dp00000H8YVWIA3") == "001Dp00000H8YVWIA3"


def test_what_ids_name() -> None:
    """Record ids name records, prefixes, or the entity."""
    one = addressed(("001Dp00000H8YVW", "001*", "001Dp00000H8YVWIA3"))
    assert (one.records, one.prefixes, one.whole) == (("001Dp00000H8YVWIA3",), ("001",), False)
    for ids in ((), ("",), ("000000000000000AAA",), ("000000000000000",)):
        assert addressed(ids).whole
