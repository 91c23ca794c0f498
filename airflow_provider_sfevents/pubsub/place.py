"""Where a shared stream is, and who may join it there. Pure.

A place has many names: the start of whoever came first, and each keepalive since. Replay ids cannot be compared but for equality, so the
names are remembered, until an event makes it another place.

Rule 1. Who goes on from one of the names misses nothing and gets nothing twice: no event lay between them.
Rule 2. `latest` is a moment. Who begins there may join at any place, once the stream has come to the end of what lay on the bus; before,
        it would be given the past.
Rule 3. `earliest` is a name only for those who would really begin there: what has expired since, an own replay id would have told of.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ReplayIdRefused
from airflow_provider_sfevents.pubsub.start import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Iterable

# An idle stream hears a keepalive every minute or two, for days. Who comes with an older name has a stream of its own.
_NAMES_KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Newcomer:
    """Somebody who looks for a stream.

    :param start: `earliest`, `latest` or a replay id in hex.
    :param same_place: other replay ids of the very place `start` names.
    """

    start: str
    same_place: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        others = tuple(name for name in self.same_place if name not in {EARLIEST, LATEST})
        return others if self.start == LATEST else (self.start, *others)


class Place:
    """The place of one stream. `newest` is the last name the service told; empty before its first response."""

    __slots__ = ("_caught_up", "_heard", "_names", "newest")

    def __init__(self, first: Newcomer) -> None:
        self._names = set(first.names)
        self._heard: deque[str] | None = None
        self._caught_up = first.start == LATEST
        self.newest = ""

    def admits(self, newcomer: Newcomer) -> bool:
        """Whether what comes next is what comes next for the newcomer."""
        if newcomer.start == LATEST:
            return self._caught_up
        heard = self._heard or ()
        return any(name in self._names or name in heard for name in newcomer.names)

    def joined_by(self, newcomer: Newcomer) -> None:
        """The newcomer's names are names of this place too."""
        if newcomer.start != LATEST:
            self._names.update(newcomer.names)

    def renamed(self, name: str, *, owed: int) -> None:
        """A keepalive came: nothing lies between the place and this name of it.

        :param owed: events the service would have sent, were there any.
        """
        self._caught_up = self._caught_up or owed > 0
        if self._heard is None:
            self._heard = deque(maxlen=_NAMES_KEPT)
        self._heard.append(name)
        self.newest = name

    def moved(self, name: str) -> None:
        """An event came: this is another place."""
        self._names = {name}
        self._heard = None
        self.newest = name


def news_for(newcomer: Newcomer, place: Place) -> str:
    """The name to tell who joins: it is as good as a keepalive. Empty where there is none but its own."""
    return "" if place.newest == newcomer.start else place.newest


def is_refused(error: object, refused: str, start: str) -> bool:
    """Whether a stream's end is the end for a member that would go on from `start`.

    Of several names of a place, one may be older than what the bus remembers, and another not.
    """
    return not isinstance(error, ReplayIdRefused) or start == refused


def credit(wants: Iterable[int]) -> int:
    """What to have outstanding for members that want so much: more than one of them could take is never asked for."""
    return max(wants, default=0)


def is_too_much(outstanding: int, wants: Iterable[int], place: str) -> bool:
    """Whether to go on with another stream, since somebody left for whom more was asked than the others want.

    Credit cannot be taken back, and what comes for nobody is paid for. From `latest` there is no going on.
    """
    return place != LATEST and 0 < credit(wants) < outstanding
