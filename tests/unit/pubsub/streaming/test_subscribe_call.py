"""End of a stream, if gRPC covers the service's status with one of its own."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from typing_extensions import override

from airflow_provider_sfevents.exceptions import QuotaExceededError, SfEventsError, TransportError
from airflow_provider_sfevents.proto.pubsub_api_pb2 import ConsumerEvent, FetchResponse
from airflow_provider_sfevents.pubsub.auth.secret import NO_SECRET
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.error_codes import PREFIX
from airflow_provider_sfevents.pubsub.streaming.subscribe_call import (
    StreamEndedError,
    SubscribeCall,
)
from airflow_provider_sfevents.replay_point import EARLIEST

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable


def status(code: str, details: str, error_code: str = "") -> grpc.aio.AioRpcError:
    trailers = (
        grpc.aio.Metadata(("error-code", PREFIX + error_code), ("rpc-id", "r-9"))
        if error_code
        else grpc.aio.Metadata()
    )
    return grpc.aio.AioRpcError(
        grpc.StatusCode[code], grpc.aio.Metadata(), trailers, details=details
    )


COVER = status("INTERNAL", "Internal error from Core")
USED_UP = status("RESOURCE_EXHAUSTED", "No more.", "subscription.limit.exceeded")
POLITE = status("OK", "")


class EndedCall:
    """A call whose second write meets its end; its status before, during and after that.

    :param later: the status that replaces the cover, after some iterations of the loop.
    """

    def __init__(
        self, first: grpc.aio.AioRpcError, later: grpc.aio.AioRpcError | None = None
    ) -> None:
        self._status = first
        self._later = later
        self._writes = 0
        self._locks = 3
        self._callbacks: list[Callable[[Any], None]] = []

    def add_done_callback(self, callback: Callable[[Any], None]) -> None:
        self._callbacks.append(callback)

    async def write(self, message: object) -> None:
        self._writes += 1
        if self._writes > 1:
            for callback in self._callbacks:
                callback(self)
            self._status = COVER
            raise COVER

    async def code(self) -> grpc.StatusCode:
        self._locks -= 1
        if self._later is not None and not self._locks:
            self._status = self._later
        return self._status.code()

    async def details(self) -> str | None:
        return self._status.details()

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        return self._status.trailing_metadata()

    def cancel(self) -> None:
        """Nothing is left to cancel."""

    async def __aiter__(self) -> AsyncIterator[FetchResponse]:
        yield FetchResponse(rpc_id="r-1")
        raise COVER


async def end_of(call: EndedCall) -> SfEventsError:
    stream = SubscribeCall(call, "/event/X__e", doing="Reading", secret=NO_SECRET, clock=Clock())
    await stream.ask(100, EARLIEST)
    await stream.ask(1, EARLIEST)
    assert await stream.read(5) is not None
    with pytest.raises(SfEventsError) as raised:
        await stream.read(5)
    await stream.close()
    return raised.value


@pytest.mark.parametrize(
    "call", [EndedCall(USED_UP), EndedCall(COVER, later=USED_UP)], ids=["before", "after"]
)
def test_a_write_that_meets_the_end_hides_nothing(call: EndedCall) -> None:
    """The service's status counts, whether it came before or after the write's own."""
    error = asyncio.run(end_of(call))
    assert type(error) is QuotaExceededError
    assert "(subscription.limit.exceeded, rpc id r-9)" in str(error)


@pytest.mark.parametrize(
    "call", [EndedCall(POLITE), EndedCall(COVER, later=POLITE)], ids=["before", "after"]
)
def test_a_polite_end_stays_polite(call: EndedCall) -> None:
    """A stream that the service ended without an error does not count as failed after a write."""
    error = asyncio.run(end_of(call))
    assert type(error) is StreamEndedError
    assert "the service ended the stream (rpc id r-1)" in str(error)


def test_a_status_that_never_comes_is_a_passing_fault() -> None:
    """Without the service's status, gRPC's INTERNAL with the last rpc id is a passing error."""
    error = asyncio.run(end_of(EndedCall(COVER)))
    assert type(error) is TransportError
    assert "(INTERNAL, rpc id r-1)" in str(error)


def response(*replay_ids: bytes, pending: int) -> FetchResponse:
    events = [ConsumerEvent(replay_id=one) for one in replay_ids]
    return FetchResponse(events=events, pending_num_requested=pending, rpc_id=f"r-{pending}")


class OpenCall(EndedCall):
    """A call whose responses come at once, one after the other."""

    def __init__(self, *responses: FetchResponse) -> None:
        super().__init__(POLITE)
        self._responses = responses

    @override
    async def __aiter__(self) -> AsyncIterator[FetchResponse]:
        for one in self._responses:
            yield one


def test_responses_in_a_row_are_one_delivery() -> None:
    """They are gathered, with the count and rpc id of the last; a keepalive is not among them."""

    async def deliveries(call: OpenCall) -> list[tuple[list[bytes], int, str]]:
        stream = SubscribeCall(call, "/event/X__e", doing="", secret=NO_SECRET, clock=Clock())
        found = []
        with suppress(StreamEndedError):
            while (one := await stream.read(60)) is not None:
                found.append((one.replay_ids, one.pending, one.rpc_id))
        return found

    keepalive = FetchResponse(latest_replay_id=b"4", pending_num_requested=97, rpc_id="k")
    call = OpenCall(
        response(b"1", pending=99),
        response(b"2", b"3", pending=97),
        keepalive,
        response(b"5", pending=96),
    )

    assert asyncio.run(deliveries(call)) == [
        ([b"1", b"2", b"3"], 97, "r-97"),
        ([], 97, "k"),
        ([b"5"], 96, "r-96"),
    ]
