from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import given, strategies as st

from airflow_provider_sfevents.staging.parts.part_chain import chain
from tests.unit.staging.building import part

if TYPE_CHECKING:
    import random

    from airflow_provider_sfevents.staging.manifest import Part


def test_a_file_from_another_place_is_left_out() -> None:
    """A file is left out if no chain of files from the batch's start leads to it."""
    assert chain("0f", [part("earliest", "0a", 0, 3), part("0a", "0b", 3, 2)]) == ()


def test_a_hole_ends_the_chain() -> None:
    """Files beyond a missing one are left out, even if their replay ids would fit."""
    first = part("earliest", "0a", 0, 3)
    assert chain("earliest", [first, part("0a", "0b", 4, 2)]) == (first,)


def test_an_empty_file_leads_nowhere() -> None:
    """A file without events never extends a chain."""
    assert chain("0a", [part("0a", "0a", 0, 0)]) == ()


@st.composite
def attempts(draw: st.DrawFn) -> list[Part]:
    """Files of several attempts at one batch, each with its own cuts; some files are lost."""
    found = []
    for attempt in range(1, draw(st.integers(1, 4)) + 1):
        cuts = sorted(draw(st.sets(st.integers(0, 12), min_size=2, max_size=6)))
        for low, high in pairwise(cuts):
            if draw(st.integers(0, 4)):
                found.append(
                    part(place(low), place(high), low, high - low, f"attempts/{attempt:04d}/{low}")
                )
    return found


def place(ordinal: int) -> str:
    return f"{ordinal:04x}" if ordinal else "earliest"


def longest(start: str, ordinal: int, parts: list[Part]) -> int:
    """Number of events that can be reached from a start, found by trying every way."""
    ways = [one for one in parts if (one.start, one.first_ordinal) == (start, ordinal)]
    return max(
        (one.events + longest(one.end, ordinal + one.events, parts) for one in ways), default=0
    )


@given(attempts())
def test_a_chain_is_gapless_whole_and_the_longest(parts: list[Part]) -> None:
    """A chain has no gap and no overlap, and no other choice of files reaches further."""
    found = chain("earliest", parts)
    at, ordinal = "earliest", 0
    for one in found:
        assert one in parts
        assert (one.start, one.first_ordinal) == (at, ordinal)
        at, ordinal = one.end, ordinal + one.events
    assert ordinal == longest("earliest", 0, parts)


@given(attempts(), st.randoms(use_true_random=False))
def test_the_order_of_listing_does_not_matter(parts: list[Part], shuffler: random.Random) -> None:
    """Two tasks that list the same files in different orders find the same chain."""
    shuffled = list(parts)
    shuffler.shuffle(shuffled)
    assert chain("earliest", shuffled) == chain("earliest", parts)


@given(attempts(), st.integers(0, 20))
def test_one_more_file_never_shortens_the_chain(parts: list[Part], ordinal: int) -> None:
    """An additional file never makes a chain shorter."""
    more = [*parts, part(place(ordinal), place(ordinal + 2), ordinal, 2, "attempts/0009/more")]
    assert sum(one.events for one in chain("earliest", more)) >= sum(
        one.events for one in chain("earliest", parts)
    )


def test_a_long_chain_is_followed_to_its_end() -> None:
    """A chain of a thousand files does not exceed the recursion depth."""
    parts = [part(place(n), place(n + 1), n, 1) for n in range(3000)]
    assert (
        len(chain("earliest", [replace(one, path=f"p{n}") for n, one in enumerate(parts)])) == 3000
    )
