"""Staged files that go together into one task of Spark."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given, strategies as st

from airflow_provider_sfevents.spark.landing.splits import (
    MOST_SPLITS,
    SPLIT_BYTES,
    SPLIT_EVENTS,
    splits_of,
)
from airflow_provider_sfevents.staging.manifest import Part


def parts_of(*sizes: tuple[int, int]) -> list[Part]:
    """Staged files of so many events and bytes."""
    made: list[Part] = []
    for events, size in sizes:
        first = made[-1].first_ordinal + made[-1].events if made else 0
        made.append(
            Part(
                path=f"{first}.parquet",
                start="",
                end="",
                first_ordinal=first,
                events=events,
                bytes=size,
                sha256="",
                schemas=(f"s{len(made) % 2}",),
            )
        )
    return made


def counts(*sizes: tuple[int, int]) -> list[int]:
    """Number of these files in each split."""
    return [len(split.parts) for split in splits_of(parts_of(*sizes))]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([(1, 1)], [1]),
        ([(20_000, 6_000_000)] * 30, [13, 13, 4]),
        ([(SPLIT_EVENTS, 1)] * 2, [1, 1]),
        ([(SPLIT_EVENTS - 1, 1)] * 3, [2, 1]),
        ([(1, SPLIT_BYTES)] * 2, [1, 1]),
        ([(40, 32 * 2**20)] * 5, [4, 1]),
        ([(1, 300)] * 2_880, [2_880]),
    ],
)
def test_files_go_together_until_they_are_worth_a_task(
    sizes: list[tuple[int, int]], expected: list[int]
) -> None:
    """Files are grouped up to a number of events or bytes, however long they took to come."""
    assert counts(*sizes) == expected


def test_a_large_batch_is_not_torn_into_any_number_of_them() -> None:
    """A large batch has a bounded number of splits."""
    found = counts(*[(20_000, 32 * 2**20)] * 10_000)

    assert len(found) <= MOST_SPLITS + 1
    assert max(found) - min(found[:-1]) <= 1


def test_a_split_knows_where_it_begins_and_what_is_in_it() -> None:
    """A split begins at its first file, and has the schemas of all its files."""
    parts = parts_of((SPLIT_EVENTS, 9), (3, 9), (4, 9))

    first, second = splits_of(parts)

    assert (first.first_ordinal, first.parts) == (0, (*parts[:1],))
    assert (second.first_ordinal, second.parts) == (SPLIT_EVENTS, (*parts[1:],))
    assert (sorted(first.schemas), sorted(second.schemas)) == (["s0"], ["s0", "s1"])


@given(
    st.lists(
        st.tuples(st.integers(1, 2 * SPLIT_EVENTS), st.integers(1, 2 * SPLIT_BYTES)), max_size=400
    )
)
def test_no_file_is_left_out_or_moved(sizes: list[tuple[int, int]]) -> None:
    """Splits hold all files in order, whatever their sizes, in a bounded number."""
    parts = parts_of(*sizes)

    found = splits_of(parts)

    assert list(chain.from_iterable(split.parts for split in found)) == parts
    assert all(split.parts for split in found)
    assert len(found) <= MOST_SPLITS + 1
