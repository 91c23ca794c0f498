from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_sfevents.commands.batches import in_words, parse_batch_id, row
from airflow_provider_sfevents.exceptions import ConfigurationError
from tests.unit.commands.building import landed, nothing, part
from tests.unit.positions.building import begun


def test_a_batch_id_is_taken_apart() -> None:
    """A batch id is split at its last dash, as an epoch may hold dashes."""
    assert parse_batch_id("my-epoch-12") == ("my-epoch", 12)


@pytest.mark.parametrize("text", ["", "e1", "e1-", "-1", "e1-x"])
def test_what_is_no_batch_id_is_named(text: str) -> None:
    """The error for an invalid batch id names the command that lists batches."""
    with pytest.raises(ConfigurationError, match=r"is no batch id.*batches list"):
        parse_batch_id(text)


def test_a_row_says_what_is_known() -> None:
    """A row has the staging run and counts of a landed batch, and events of files alone."""
    position = begun()
    known = row(landed(position), position)
    by = known["staged_by"]
    assert (by["dag"], by["task"], by["run"]) == ("load", "fetch", "run-1")
    assert in_words(by) == "load.fetch run-1"
    assert (known["events"], known["quarantined"], known["duplicates"]) == (3, 0, 0)
    paid_twice = replace(landed(position), extra_deliveries={"in_memory": 2, "outside_batch": 1})
    assert (known["extra_deliveries"], row(paid_twice, position)["extra_deliveries"]) == (0, 3)
    kept = row(nothing(position, parts=(part("earliest", "0a"),)), position)
    assert (kept["state"], kept["events"], kept["bytes"], kept["staged_by"]) == (
        "1 file kept",
        2,
        20,
        None,
    )
    assert in_words(kept["staged_by"]) == ""
