"""The form of a batch that may be published."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.landing.fence import (
    LEFT_OVERS,
    new_attempt,
    newer,
    older,
    stamp,
    twins,
)


def test_names_of_attempts_sort_as_their_manifests_times_do() -> None:
    """Attempts' names sort by their manifests' times, in any zone and precision."""
    times = [
        "2026-11-02T06:30:00+00:00",
        "2026-11-02T06:30:00.000001+00:00",
        "2026-11-02T09:00:00+02:00",
        "2026-11-02T07:00:00.5+00:00",
        "2026-12-01T00:00:00Z",
    ]

    assert [stamp(time) for time in times] == sorted({stamp(time) for time in times})


def test_an_attempt_knows_older_and_newer_ones() -> None:
    """Attempts at the same manifest are neither older nor newer; names without a time are older."""
    own, twin = new_attempt("2026-11-02T06:30:00+00:00"), new_attempt("2026-11-02T06:30:00+00:00")
    before, after = new_attempt("2026-11-02T06:29:59+00:00"), new_attempt("2026-11-02T06:31:00Z")
    unnamed = "5f3c1a0de1f04d9c8f3b1c2d4e5f6a7b"
    there = [own, twin, before, after, unnamed, LEFT_OVERS]

    assert own != twin
    assert older(there, own) == [before, unnamed, LEFT_OVERS]
    assert twins(there, own) == [own, twin]
    assert newer(there, own) == [after]


def test_a_time_that_is_none_is_named() -> None:
    """A manifest whose time was edited is refused."""
    with pytest.raises(StagingError, match="created_at='soon' is no time"):
        stamp("soon")
