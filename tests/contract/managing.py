"""A managed subscription for tests: taken when free, read up to now, left with a commit."""

from __future__ import annotations

import time
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb
from tests.contract.wire import StreamError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.contract.orgs import OrgUnderTest
    from tests.contract.wire import Client, Stream

PREFIX = "managed.subscription."
_RETRY_SECONDS = 0.1


class Managed:
    """Managed stream without outstanding events that has delivered everything.

    :param place: replay id of the last event delivered.
    """

    def __init__(self, stream: Stream, place: bytes) -> None:
        self.stream = stream
        self.place = place

    def commit(self, replay_id: bytes | None = None, **more: Any) -> str:
        """Request a commit, by default of the last event, and return the request's id."""
        request = pb.CommitReplayRequest(
            commit_request_id=str(uuid.uuid4()),
            replay_id=self.place if replay_id is None else replay_id,
        )
        self.stream.ask(commit_replay_id_request=request, **more)
        return request.commit_request_id

    def answer(self) -> Any:
        """Next response with a commit result."""
        while True:
            response = self.stream.read()
            if response.HasField("commit_response"):
                return response

    def take(self, events: int) -> list[Any]:
        """Request and read `count` events."""
        self.stream.ask(num_requested=events)
        found = self.stream.take(events)
        self.place = found[-1].replay_id
        return found


@contextmanager
def managed(org: OrgUnderTest, *, leave: str = "committed") -> Iterator[Managed]:
    """The org's managed subscription, read up to now, with its position committed.

    :param leave: `committed`: when the block ends, commit the last place and half-close.
        `uncommitted`: half-close. `ended`: nothing, for the stream has ended.
    """
    [now] = org.publish(org.event("managed"))
    with taken(org) as stream:
        while stream.take(1)[-1].replay_id != now:
            stream.ask(num_requested=1)
        one = Managed(stream, now)
        one.commit()
        one.answer()
        yield one
        if leave == "committed":
            one.commit()
            one.answer()
        if leave != "ended":
            stream.half_close()
            stream.end(org.times.half_close + org.times.slack)


@contextmanager
def taken(org: OrgUnderTest, client: Client | None = None, **first: Any) -> Iterator[Stream]:
    """Stream that has requested one event; it waits for an earlier client's slot.

    :param first: fields of the first request, where it is not to ask for one event by the developer
        name. One that asks for nothing is followed by one that asks for one event.
    """
    until = time.monotonic() + org.times.slot_hold + org.times.slack
    name = org.need("managed")
    first = first or {"developer_name": name}
    while True:
        with (client or org.client).managed(**{"num_requested": 1, **first}) as stream:
            if first.get("num_requested") == 0:
                stream.ask(num_requested=1)
            try:
                stream.peek()
            except StreamError as ended:
                if "already.active" not in str(ended) or time.monotonic() > until:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                yield stream
                return


def refused(org: OrgUnderTest, **first: Any) -> tuple[str, str]:
    """Status and code of a stream with this first request, which asks for one event by default."""
    with org.client.managed(**{"num_requested": 1, **first}) as stream:
        found = stream.end()
    return found.status, found.code.removeprefix(PREFIX)
