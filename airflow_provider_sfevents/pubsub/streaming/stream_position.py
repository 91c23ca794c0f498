"""Position of a shared stream, and the rules of joining it. Pure.

One position has many replay ids: the start of its first member, and each keepalive since. Replay
ids can only be compared for equality, so they are remembered until an event moves the position.

Rule 1. A member that continues from one of the ids misses nothing and gets nothing twice: there is
        no event between them.
Rule 2. `latest` resolves to a different replay id each time. A member that begins there may join at
        any position, once the stream has caught up with the bus; before, it would get past events.
Rule 3. `earliest` matches only members that begin there too. A member with a replay id would be
        refused if its id has expired; joined to a stream from `earliest`, it would skip the expired
        events silently.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ReplayIdRefusedError
from airflow_provider_sfevents.replay_point import LATEST, ReplayPoint

if TYPE_CHECKING:
    from collections.abc import Iterable

# An idle stream gets a keepalive every minute or two, for days. A member with an older id gets a
# stream of its own.
_IDS_KEPT = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinRequest:
    """Request of a member to join a stream.

    :param start: replay point that the member continues from.
    :param equal_points: other replay points of the same position as `start`.
    """

    start: ReplayPoint
    equal_points: tuple[ReplayPoint, ...] = ()

    @property
    def replay_ids(self) -> tuple[str, ...]:
        others = tuple(one.to_text() for one in self.equal_points if one.is_replay_id)
        return others if self.start == LATEST else (self.start.to_text(), *others)


class StreamPosition:
    """Position of one stream. `latest_id` is the last replay id from the service.

    Empty before its first response.
    """

    __slots__ = ("_caught_up", "_ids", "_keepalive_ids", "latest_id")

    def __init__(self, first: JoinRequest) -> None:
        self._ids = set(first.replay_ids)
        self._keepalive_ids: deque[str] | None = None
        self._caught_up = first.start == LATEST
        self.latest_id = ""

    def admits(self, request: JoinRequest) -> bool:
        """Return whether the next event of the stream is the next event for the member."""
        if request.start == LATEST:
            return self._caught_up
        keepalive_ids = self._keepalive_ids or ()
        return any(name in self._ids or name in keepalive_ids for name in request.replay_ids)

    def add_ids_of(self, request: JoinRequest) -> None:
        """Add the replay ids of a member that joined: they denote this position too."""
        if request.start != LATEST:
            self._ids.update(request.replay_ids)

    def keepalive_received(self, name: str, *, owed: int) -> None:
        """Add the replay id of a keepalive: there is no event between the position and this id.

        :param owed: events that the service would have sent if there were any.
        """
        self._caught_up = self._caught_up or owed > 0
        if self._keepalive_ids is None:
            self._keepalive_ids = deque(maxlen=_IDS_KEPT)
        self._keepalive_ids.append(name)
        self.latest_id = name

    def event_received(self, name: str) -> None:
        """Move to the replay id of an event."""
        self._ids = {name}
        self._keepalive_ids = None
        self.latest_id = name


def latest_id_for(request: JoinRequest, position: StreamPosition) -> str:
    """The latest replay id, handed to a new member like a keepalive.

    Empty if it is the member's own or there is none.
    """
    return "" if position.latest_id == request.start.to_text() else position.latest_id


def ends_member(error: object, refused: ReplayPoint, start: ReplayPoint) -> bool:
    """Return whether a stream's end also ends a member that would continue from `start`.

    Several replay ids can denote the same position; some may have expired and others not.
    """
    return not isinstance(error, ReplayIdRefusedError) or start == refused


def shared_credit(wants: Iterable[int]) -> int:
    """Credit to have outstanding for all members: never more than one of them could take."""
    return max(wants, default=0)


def is_over_asked(outstanding: int, wants: Iterable[int], replay_point: ReplayPoint) -> bool:
    """Return whether more is outstanding than any remaining member wants.

    If so, the members continue on another stream.

    Credit cannot be taken back, and events that no member takes are paid for. From `latest` no
    stream can continue.
    """
    return replay_point != LATEST and 0 < shared_credit(wants) < outstanding
