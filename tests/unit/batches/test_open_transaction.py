"""Flush of an open transaction after a fetch without events."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.batches.open_transaction import is_due, require_flushed
from airflow_provider_sfevents.exceptions import NotLandedError
from airflow_provider_sfevents.staging.manifest import Receipt
from tests.unit.batches.building import manifest, run


def receipt(applied: dict[str, int] | None) -> Receipt:
    return Receipt(
        batch_id="e-1", events=3, tables={}, quarantined=0, written_at="", applied=applied
    )


@pytest.mark.parametrize(
    ("ended_by", "applied", "due"),
    [
        ("idle_seconds", {"open_events": 2}, True),
        ("idle_seconds", {"open_events": 0}, False),
        ("idle_seconds", {}, False),
        ("idle_seconds", None, False),
        ("max_seconds", {"open_events": 2}, False),
        ("until", {"open_events": 2}, False),
    ],
)
def test_only_silence_after_a_batch_that_holds_something(
    ended_by: str, applied: dict[str, int] | None, due: bool
) -> None:
    """Only `idle_seconds` after a batch with an open transaction flushes it; a bound never does."""
    assert is_due(ended_by, receipt(applied)) is due


def test_no_batch_yet() -> None:
    """Without a receipt, at the beginning of a position, there is no transaction to flush."""
    assert not is_due("idle_seconds", None)


@pytest.mark.parametrize("left", [None, receipt({"open_events": 2})], ids=["gone", "as before"])
def test_a_job_that_released_nothing_is_told(left: Receipt | None) -> None:
    """A job that succeeded without flushing the transaction, by its receipt, is an error."""
    with pytest.raises(NotLandedError, match="does not say that the open transaction of batch"):
        require_flushed(manifest(1, run(1)), left, "file:///staging/e/1")
    require_flushed(manifest(1, run(1)), receipt({"open_events": 0}), "file:///staging/e/1")


def test_receipts_of_before_stay_readable() -> None:
    """A receipt is equal after a round trip, with or without `applied`."""
    old = receipt(None).to_json().replace('"applied": null,', "").replace(',\n "applied": null', "")
    assert "applied" not in old
    assert Receipt.from_json(old, "x").open_events == 0
    new = receipt({"applied": 1, "open_events": 2})
    assert Receipt.from_json(new.to_json(), "x") == new
