"""The HTTP/2 connection to the Pub/Sub API, and the metadata every RPC carries.

A channel is opened where it is used and closed there: Airflow forks its task processes, and gRPC does not survive a fork.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import grpc
import grpc.aio
from typing_extensions import override

from airflow_provider_sfevents.pubsub.trust import read_ca_file

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.patience import Patience
    from airflow_provider_sfevents.pubsub.session import Session
    from airflow_provider_sfevents.pubsub.settings import Settings

# The service keeps a response at or below 3 MB (its allocations page); gRPC's own limit of 4 MB is too near to that.
MAX_RESPONSE_BYTES = 16 * 1024 * 1024
# How fast gRPC itself tries to connect again; how often an RPC is tried is our own policy (`reconnect`).
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


def open_channel(settings: Settings, patience: Patience) -> grpc.aio.Channel:
    """:raises ConfigurationError: when the CA file cannot be used. Connects on the first RPC, not here."""
    options = (
        *_OPTIONS,
        ("grpc.keepalive_time_ms", round(patience.ping_every_seconds * 1000)),
        ("grpc.keepalive_timeout_ms", round(patience.ping_timeout_seconds * 1000)),
        # While a ping of gRPC's own is under way, which it sends to measure the line, no other is sent; its answer may take a minute.
        ("grpc.http2.ping_timeout_ms", round(patience.dead_line_seconds * 1000)),
        # No proxy stands between this machine and itself, whatever http_proxy says.
        ("grpc.enable_http_proxy", 0 if settings.endpoint_is_local else 1),
    )
    if settings.plaintext:
        return grpc.aio.insecure_channel(settings.endpoint, options=options)
    authorities = read_ca_file(settings.ca_file).encode() if settings.ca_file else None
    return grpc.aio.secure_channel(
        settings.endpoint, grpc.ssl_channel_credentials(authorities), options=options
    )


def metadata(session: Session) -> CallHeaders:
    """The three headers that identify the caller, and the call's id for Salesforce's support."""
    return CallHeaders(
        ("accesstoken", session.token.reveal()),
        ("instanceurl", session.instance_url),
        ("tenantid", session.org_id),
        ("x-client-trace-id", str(uuid.uuid4())),
    )
