"""Channels of gRPC (HTTP/2 connections) of a client, the channel that an RPC uses, and its headers.

A connection takes a limited number of RPCs at once; one more waits silently until another ends, and
a subscription may last for days. So streams are counted, and the next connection is opened before
one is full.

Rule 1. Streams use the fullest connection that has room, so that others run empty; unary calls use
        the emptiest.
Rule 2. Ten places on each connection are never given to streams. So a unary call always finds room.
Rule 3. An empty connection is closed when the others have room to spare for streams; the last one
        stays.
Rule 4. A channel is opened where it is used and closed there: Airflow forks its task processes, and
        gRPC does not survive a fork.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from typing_extensions import override

from airflow_provider_sfevents.proto.pubsub_api_pb2_grpc import PubSubStub
from airflow_provider_sfevents.pubsub.auth.ca_file import read_ca_file

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.pubsub.auth.settings import Settings
    from airflow_provider_sfevents.pubsub.timeouts import Timeouts

# Common limit of servers on one connection. Salesforce's page says 1,000, but a proxy in front of
# its servers may have a lower limit.
MOST_RPCS = 100
MOST_STREAMS = 90
# With less room for streams than this in the others, an empty connection would soon be needed
# again.
_SPARE_STREAMS = 45


@dataclass(slots=True, kw_only=True)
class ChannelLoad:
    """RPCs that one connection carries now."""

    streams: int = 0
    calls: int = 0

    @property
    def is_full(self) -> bool:
        return self.streams + self.calls >= MOST_RPCS

    @property
    def room_for_streams(self) -> int:
        return max(0, MOST_STREAMS - self.streams)


def for_stream(loads: Sequence[ChannelLoad]) -> int | None:
    """Index of the connection for the next stream; None: open another one."""
    free = [at for at, load in enumerate(loads) if load.room_for_streams and not load.is_full]
    return max(free, key=lambda at: loads[at].streams, default=None)


def for_call(loads: Sequence[ChannelLoad]) -> int | None:
    """Index of the connection for the next unary call; None: open another one."""
    free = [at for at, load in enumerate(loads) if not load.is_full]
    return min(free, key=lambda at: loads[at].streams + loads[at].calls, default=None)


def superfluous(loads: Sequence[ChannelLoad]) -> int | None:
    """Index of a connection that may be closed, if there is one."""
    room = sum(load.room_for_streams for load in loads)
    for at, load in enumerate(loads):
        is_empty = not load.streams and not load.calls
        if is_empty and room - load.room_for_streams >= _SPARE_STREAMS:
            return at
    return None


class GrpcChannelPool:
    """Channels of one client; the first is opened by the first RPC, in the loop of that RPC.

    :param open_channel: makes a channel, which connects with its first RPC.
    """

    def __init__(self, open_channel: Callable[[], grpc.aio.Channel]) -> None:
        self._open_channel = open_channel
        self._channels: list[tuple[grpc.aio.Channel, Any]] = []
        self._loads: list[ChannelLoad] = []
        self._closing: set[asyncio.Task[None]] = set()

    def stream(self, method: str, **options: Any) -> Any:
        """A call that counts as a stream until it is done."""
        stub, load = self._taken(for_stream(self._loads))
        load.streams += 1
        try:
            call = getattr(stub, method)(**options)
        except BaseException:
            load.streams -= 1
            raise

        def ended(_: Any) -> None:
            load.streams -= 1
            self._tidy()

        call.add_done_callback(ended)
        return call

    async def unary(self, method: str, request: Any, **options: Any) -> Any:
        """Make a unary call and return its answer.

        :raises grpc.aio.AioRpcError: the call failed.
        """
        stub, load = self._taken(for_call(self._loads))
        load.calls += 1
        try:
            return await getattr(stub, method)(request, **options)
        finally:
            load.calls -= 1
            self._tidy()

    async def close(self) -> None:
        """Close every channel, which cancels the RPCs that are left."""
        channels, self._channels, self._loads = self._channels, [], []
        for channel, _ in channels:
            await channel.close()
        if self._closing:
            await asyncio.wait(self._closing)

    def _taken(self, at: int | None) -> tuple[Any, ChannelLoad]:
        if at is None:
            at = len(self._channels)
            channel = self._open_channel()
            self._channels.append((channel, PubSubStub(channel)))  # type: ignore[no-untyped-call]
            self._loads.append(ChannelLoad())
        return self._channels[at][1], self._loads[at]

    def _tidy(self) -> None:
        while (at := superfluous(self._loads)) is not None:
            del self._loads[at]
            channel, _ = self._channels.pop(at)
            closing = asyncio.ensure_future(channel.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)


# The service keeps a response at or below 3 MB (its allocations page); gRPC's own limit of 4 MB is
# too near to that.
MAX_RESPONSE_BYTES = 16 * 1024 * 1024
# Pauses of gRPC's own reconnects; retries of an RPC follow `reconnect`.
_CONNECT_AGAIN_MS = 500
_CONNECT_AGAIN_MAX_MS = 10_000

_OPTIONS: tuple[tuple[str, int | str], ...] = (
    ("grpc.max_receive_message_length", MAX_RESPONSE_BYTES),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", _CONNECT_AGAIN_MS),
    ("grpc.max_reconnect_backoff_ms", _CONNECT_AGAIN_MAX_MS),
    ("grpc.enable_retries", 0),
    (
        "grpc.use_local_subchannel_pool",
        1,
    ),  # no failure of another client's connection is held against this one
    ("grpc.primary_user_agent", "airflow-provider-sfevents"),
)


class CallHeaders(grpc.aio.Metadata):
    """Metadata whose `repr` shows no token: it is a local variable in the frames of every call."""

    @override
    def __repr__(self) -> str:
        return f"<headers {', '.join(self.keys())}>"


def _proxy_options(settings: Settings) -> tuple[tuple[str, Any], ...]:
    """Options for the proxy of the settings, otherwise for that of the environment.

    The environment's proxy does not stand between this machine and itself.
    """
    if settings.proxy:
        return (("grpc.http_proxy", settings.proxy.reveal()),)
    return (("grpc.enable_http_proxy", 0 if settings.endpoint_is_local else 1),)


def open_channel(settings: Settings, timeouts: Timeouts) -> grpc.aio.Channel:
    """Make a channel, which connects with its first RPC.

    :raises ConfigurationError: the CA file cannot be used.
    """
    options = (
        *_OPTIONS,
        ("grpc.keepalive_time_ms", round(timeouts.ping_every_seconds * 1000)),
        ("grpc.keepalive_timeout_ms", round(timeouts.ping_timeout_seconds * 1000)),
        # gRPC also sends pings to measure the line, and no other ping meanwhile; such an answer may
        # take a minute.
        ("grpc.http2.ping_timeout_ms", round(timeouts.dead_line_seconds * 1000)),
        *_proxy_options(settings),
    )
    if settings.plaintext:
        return grpc.aio.insecure_channel(settings.endpoint, options=options)
    authorities = read_ca_file(settings.ca_file).encode() if settings.ca_file else None
    return grpc.aio.secure_channel(
        settings.endpoint, grpc.ssl_channel_credentials(authorities), options=options
    )


def call_headers(session: Session) -> CallHeaders:
    """The three headers that identify the caller, and the call's id for Salesforce's support."""
    return CallHeaders(
        ("accesstoken", session.token.reveal()),
        ("instanceurl", session.instance_url),
        ("tenantid", session.org_id),
        ("x-client-trace-id", str(uuid.uuid4())),
    )
