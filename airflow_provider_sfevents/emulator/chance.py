"""What happens by itself now and then: shares of events and calls, repeatable by the seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")


class Chance:
    """Decides what happens to whom. Used under its owner's lock.

    :param seed: the same seed decides the same, for the same questions in the same order.
    """

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)  # noqa: S311 - repeatable, guards nothing

    def happens(self, share: float) -> bool:
        """Decide on one; the share 0 costs nothing."""
        return share > 0 and self._random.random() < share

    def doubled(self, things: Sequence[T], share: float) -> list[T]:
        """Things, so many of which come twice, one behind the other."""
        if share <= 0:
            return list(things)
        return [one for thing in things for one in (thing,) * (1 + self.happens(share))]

    def below(self, most: int) -> int:
        """A number from 0 to this one."""
        return self._random.randint(0, most)

    def one_of(self, things: Sequence[T]) -> T:
        return self._random.choice(things)
