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
from airflow_provider_sfevents.pubsub.replay_ids import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Iterable

# An idle stream hears a keepalive every minute or two, for days. Who comes with an older name has a stream of its own.
_IDS_KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """Somebody who looks for a stream.

    :param start: `earliest`, `latest` or a replay id in hex.
    :param equal_replay_ids: other replay ids of the very place `start` names.
    """

    start: str
    equal_replay_ids: tuple[str, ...] = ()

    @property
    def replay_ids(self) -> tuple[str, ...]:
        others = tuple(name for name in self.equal_replay_ids if name not in {EARLIEST, LATEST})
        return others if self.start == LATEST else (self.start, *others)


class StreamPosition:
    """The place of one stream. `newest` is the last name the service told; empty before its first response."""

    __slots__ = ("_caught_up", "_ids", "_keepalive_ids", "latest_id")

    def __init__(self, first: JoinRequest) -> None:
        self._ids = set(first.replay_ids)
        self._keepalive_ids: deque[str] | None = None
        self._caught_up = first.start == LATEST
        self.latest_id = ""

    def admits(self, request: JoinRequest) -> bool:
        """Whether what comes next is what comes next for the request."""
        if request.start == LATEST:
            return self._caught_up
        keepalive_ids = self._keepalive_ids or ()
        return any(name in self._ids or name in keepalive_ids for name in request.replay_ids)

    def add_ids_of(self, request: JoinRequest) -> None:
        """The request's names are names of this place too."""
        if request.start != LATEST:
            self._ids.update(request.replay_ids)

    def keepalive_received(self, name: str, *, owed: int) -> None:
        """A keepalive came: nothing lies between the place and this name of it.

        :param owed: events the service would have sent, were there any.
        """
        self._caught_up = self._caught_up or owed > 0
        if self._keepalive_ids is None:
            self._keepalive_ids = deque(maxlen=_IDS_KEPT)
        self._keepalive_ids.append(name)
        self.latest_id = name

    def event_received(self, name: str) -> None:
        """An event came: this is another place."""
        self._ids = {name}
        self._keepalive_ids = None
        self.latest_id = name


def latest_id_for(request: JoinRequest, place: StreamPosition) -> str:
    """The name to tell who joins: it is as good as a keepalive. Empty where there is none but its own."""
    return "" if place.latest_id == request.start else place.latest_id


def ends_member(error: object, refused: str, start: str) -> bool:
    """Whether a stream's end is the end for a member that would go on from `start`.

    Of several names of a place, one may be older than what the bus remembers, and another not.
    """
    return not isinstance(error, ReplayIdRefused) or start == refused


def shared_credit(wants: Iterable[int]) -> int:
    """What to have outstanding for members that want so much: more than one of them could take is never asked for."""
    return max(wants, default=0)


def is_over_asked(outstanding: int, wants: Iterable[int], place: str) -> bool:
    """Whether to go on with another stream, since somebody left for whom more was asked than the others want.

    Credit cannot be taken back, and what comes for nobody is paid for. From `latest` there is no going on.
    """
    return place != LATEST and 0 < shared_credit(wants) < outstanding
