"""Seeded random decisions, for shares of events and calls that fail."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


class SeededRandom:
    """Repeatable random decisions. Used under its owner's lock.

    :param seed: the same seed gives the same decisions for the same calls in the same order.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, guards nothing

    def happens(self, share: float) -> bool:
        """Decide for one item; a share of 0 costs nothing."""
        return share > 0 and self._random.random() < share

    def doubled(self, things: Sequence[T], share: float) -> list[T]:
        """Copy of a list in which this share of the items comes twice in a row."""
        if share <= 0:
            return list(things)
        return [one for thing in things for one in (thing,) * (1 + self.happens(share))]

    def below(self, most: int) -> int:
        """Random number from 0 to `most`."""
        return self._random.randint(0, most)

    def one_of(self, things: Sequence[T]) -> T:
        return self._random.choice(things)
