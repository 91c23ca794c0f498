"""Meaning of a failed call: by its code, otherwise by gRPC's words, otherwise by its status."""

from __future__ import annotations

from airflow_provider_sfevents.pubsub.error_codes import (
    BY_CODE,
    NEW_TOKEN,
    OURS,
    PREFIX,
    SLOWER,
    Kind,
    Meaning,
)

_WIRE = Meaning(Kind.TRANSIENT, "Try again; if it stays, check endpoint, network and proxy.")
_NOT_THE_API = Meaning(
    Kind.CONFIGURATION,
    "What answers there is not the Pub/Sub API: check pubsub_endpoint and the Pub/Sub port.",
)

# Only where the service sent no code: the wire, a proxy, or something else than the service.
# INVALID_ARGUMENT is not read as a bad replay id: it has many causes, and the position must not be doubted for them.
BY_STATUS: dict[str, Meaning] = {
    "UNAUTHENTICATED": NEW_TOKEN,
    "PERMISSION_DENIED": Meaning(
        Kind.CONFIGURATION, "Grant the user the connection acts as the permission it lacks."
    ),
    "NOT_FOUND": Meaning(Kind.CONFIGURATION, "Check the name asked for."),
    "INVALID_ARGUMENT": Meaning(Kind.CONFIGURATION, "Check what was asked for."),
    "UNIMPLEMENTED": _NOT_THE_API,
    "DEADLINE_EXCEEDED": _WIRE,
    "RESOURCE_EXHAUSTED": SLOWER,
}

# Parts of gRPC's own messages that tell a wrong set-up from a wire that will heal.
BY_DETAILS: tuple[tuple[str, Meaning], ...] = (
    (
        "CERTIFICATE_VERIFY_FAILED",
        Meaning(
            Kind.CONFIGURATION,
            "Its certificate is not vouched for by a trusted authority: set ca_file to the authority that signed it.",
        ),
    ),
    (
        "Hostname Verification Check failed",
        Meaning(
            Kind.CONFIGURATION,
            "Its certificate is for another host name: use that name in pubsub_endpoint.",
        ),
    ),
    (
        "WRONG_VERSION_NUMBER",
        Meaning(
            Kind.CONFIGURATION,
            "It does not speak TLS: check its port, or set plaintext if it is on this machine.",
        ),
    ),
    (
        "Socket closed",
        Meaning(
            Kind.TRANSIENT,
            "Try again; if it stays, check the endpoint. A server that speaks TLS closes like this on a client set to plaintext.",
        ),
    ),
    (
        "upstream connect error",
        Meaning(
            Kind.TRANSIENT,
            "A proxy before the service lost the call: try again; if it stays, check network and proxy. A request of more than 4 MB ends like this "
            "too.",
        ),
    ),
    (
        "RST_STREAM",
        Meaning(
            Kind.TRANSIENT,
            "The service or a proxy dropped the stream: it is opened again, and goes on.",
        ),
    ),
    (
        "No CommitReplayRequests sent",
        Meaning(
            Kind.TRANSIENT,
            "A managed subscription was closed after 30 minutes without a commit: it is opened again.",
        ),
    ),
    ("larger than max", OURS),
    ("http1.x server", _NOT_THE_API),
    ("Received http2 header with status", _NOT_THE_API),
)

# gRPC's words if a call found no connection, or the server refused its stream before it looked at
# it (REFUSED_STREAM, RFC 9113 section 8.7). Every other failure of a connection may come after the
# service has carried the call out.
_NOT_SENT = (
    "failed to connect to all addresses",
    "errors resolving",
    "Received RST_STREAM with error code 7",
)


_NO_SUCH_SCHEMA = Meaning(
    Kind.SCHEMA,
    "The service knows no schema of this id: an event that names it cannot be decoded.",
)


def meaning(code: str, status: str, details: str, *, rpc: str = "") -> Meaning:
    """By the code where there is one we know; else by what gRPC says of the connection; else by the status.

    :param rpc: the method that failed.
    """
    by_code = BY_CODE.get(code.removeprefix(PREFIX))
    by_details = next((found for part, found in BY_DETAILS if part in details), None)
    if rpc == "GetSchema" and _denies_the_schema(by_code or by_details, status):
        return _NO_SUCH_SCHEMA
    return by_code or by_details or BY_STATUS.get(status, _WIRE)


def was_not_sent(code: str, details: str) -> bool:
    """Whether the service certainly did not see a failed call."""
    return not code and any(part in details for part in _NOT_SENT)


def _denies_the_schema(said: Meaning | None, status: str) -> bool:
    """Whether a refused GetSchema means "there is none", for good. What may pass, and a missing permission, never do.

    :param said: what the code or the connection says, where it says something we know.
    """
    if said is None:
        return status in {"NOT_FOUND", "INVALID_ARGUMENT"}
    return status == "NOT_FOUND" and said is BY_CODE["schema.meta.permission"]
