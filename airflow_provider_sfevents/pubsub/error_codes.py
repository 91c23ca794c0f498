"""What each `error-code` of the Pub/Sub API means to us, and each gRPC status where there is no code: one table.

From the API's page on handling errors, and from trailers seen on live orgs. A code decides, never the status beside it: an unknown
topic comes as NOT_FOUND or as PERMISSION_DENIED, an unavailable service as INTERNAL. The one exception: nobody has published with which
code GetSchema refuses an id it does not know, so there a NOT_FOUND is believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

PREFIX = "sfdc.platform.eventbus.grpc."


class Kind(Enum):
    """Who has to act."""

    CONFIGURATION = "the user changes the configuration"
    TOPIC = "the user changes the topic or its permissions"
    REPLAY_ID = "the user chooses another start"
    SCHEMA = "nobody can have this schema"
    TOKEN = "a new session helps"  # noqa: S105 - no password
    AUTHENTICATION = "the user changes the credentials"
    TRANSIENT = "trying again helps"
    OWN_FAULT = "this client broke a rule of the service; trying again repeats it"
    QUOTA = "waiting helps, trying again soon does not"


@dataclass(frozen=True, slots=True)
class Meaning:
    """:param remedy: what the user does about it."""

    kind: Kind
    remedy: str


_TOPIC = Meaning(
    Kind.TOPIC,
    "Check the topic's spelling (it is case-sensitive, as in /event/Order__e or /data/AccountChangeEvent), that it exists in this org, "
    "and that the user the connection acts as may read it.",
)
_REPLAY_ID = Meaning(
    Kind.REPLAY_ID,
    "The replay id is older than the 72 hours the bus keeps, from before a reset of the bus, from another org, or malformed. "
    "Choose where to start: earliest, latest, or a replay id that is known to be good.",
)
_AGAIN = Meaning(Kind.TRANSIENT, "This passes: try again.")
_SLOWER = Meaning(
    Kind.TRANSIENT,
    "The service protects itself: try again, with fewer subscriptions and publishes at once.",
)
_OURS = Meaning(Kind.OWN_FAULT, "This is a fault of the client: please report it, with the rpc id.")
_WIRE = Meaning(Kind.TRANSIENT, "Try again; if it stays, check endpoint, network and proxy.")
_NEW_TOKEN = Meaning(
    Kind.TOKEN, "The session has expired or was revoked, or is bound to another IP address."
)
_MANAGED = Meaning(
    Kind.CONFIGURATION,
    "Check the managed event subscription's id or developer name in the org's setup.",
)
_MANAGED_NEW = Meaning(
    Kind.TRANSIENT,
    "Check its id or developer name; a subscription just created is known to the service only after some minutes.",
)

BY_CODE: dict[str, Meaning] = {
    "service.unavailable": _AGAIN,
    "service.auth.error": _NEW_TOKEN,
    "service.auth.headers.invalid": Meaning(
        Kind.AUTHENTICATION,
        "Check the connection's instance URL and org id: one is blank or invalid.",
    ),
    "service.auth.refresh.invalid": _OURS,
    "service.protection.stream.limit.triggered": _SLOWER,
    "service.protection.triggered": _SLOWER,
    "service.tenant.license": Meaning(
        Kind.CONFIGURATION, "The org's licences do not include the Pub/Sub API: ask Salesforce."
    ),
    "concurrent.client.limit.exceeded": Meaning(
        Kind.QUOTA,
        "The org has as many publishers and subscribers as it may: stop some, then try again.",
    ),
    "topic.not.found": _TOPIC,
    "topic.meta.permission": _TOPIC,
    "topic.api.unavailable": _AGAIN,
    "topic.validation.empty": _TOPIC,
    "schema.meta.permission": Meaning(
        Kind.CONFIGURATION,
        "The user the connection acts as may not read this schema: grant read on the event.",
    ),
    "schema.api.unavailable": _AGAIN,
    "schema.validation.failed": Meaning(Kind.SCHEMA, "The schema id is blank."),
    "subscription.fetch.replayid.corrupted": _REPLAY_ID,
    "subscription.fetch.replayid.validation.failed": _REPLAY_ID,
    "subscription.fetch.replay.repeated": _AGAIN,
    "subscription.limit.exceeded": Meaning(
        Kind.QUOTA,
        "The org's allowance of delivered events for 24 hours is used up. Wait, reduce other subscribers, or buy more; events stay on the "
        "bus for 72 hours.",
    ),
    "subscription.fetch.overflow": _OURS,
    "subscription.fetch.requested.events.invalid": _OURS,
    "subscription.fetch.topic.mismatch": _OURS,
    "subscription.fetch.request.invalid": _OURS,
    "subscription.topic.cannot.subscribe": Meaning(
        Kind.TOPIC, "Grant the user the connection acts as read permission on the event."
    ),
    "subscription.internal.error": _AGAIN,
    "publish.stream.sweeper.timeout": _AGAIN,
    "publish.auth.refresh.invalid": _OURS,
    "publish.event.count.invalid": _OURS,
    "publish.topic.mismatch": _OURS,
    "publish.topic.validation.empty": _TOPIC,
    "managed.subscription.already.active": Meaning(
        Kind.TRANSIENT,
        "Another client holds this subscription, or one just did: stop it, or try again in some minutes.",
    ),
    "managed.subscription.config.stopped": Meaning(
        Kind.CONFIGURATION, "Set the subscription's state to RUN."
    ),
    "managed.subscription.config.deleted": _MANAGED,
    "managed.subscription.developer.name.not.found": _MANAGED_NEW,
    "managed.subscription.subscription.id.not.found": _MANAGED_NEW,
    "managed.subscription.subscription.id.invalid": _MANAGED,
    "managed.subscription.id.or.developer.name.empty": _MANAGED,
    "managed.subscription.fetch.request.events.invalid": _OURS,
    "managed.subscription.fetch.request.invalid": _OURS,
    "managed.subscription.fetch.request.commit.request.restricted": _OURS,
    "managed.subscription.fetch.request.auth.request.restricted": _OURS,
}

_NOT_THE_API = Meaning(
    Kind.CONFIGURATION, "What answers there is not the Pub/Sub API: check pubsub_endpoint."
)

# Only where the service sent no code: the wire, a proxy, or something else than the service.
# INVALID_ARGUMENT is not read as a bad replay id: it has many causes, and the position must not be doubted for them.
BY_STATUS: dict[str, Meaning] = {
    "UNAUTHENTICATED": _NEW_TOKEN,
    "PERMISSION_DENIED": Meaning(
        Kind.CONFIGURATION, "Grant the user the connection acts as the permission it lacks."
    ),
    "NOT_FOUND": Meaning(Kind.CONFIGURATION, "Check the name asked for."),
    "INVALID_ARGUMENT": Meaning(Kind.CONFIGURATION, "Check what was asked for."),
    "UNIMPLEMENTED": _NOT_THE_API,
    "DEADLINE_EXCEEDED": _WIRE,
    "RESOURCE_EXHAUSTED": _SLOWER,
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
    ("larger than max", _OURS),
    ("http1.x server", _NOT_THE_API),
    ("Received http2 header with status", _NOT_THE_API),
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


def _denies_the_schema(said: Meaning | None, status: str) -> bool:
    """Whether a refused GetSchema means "there is none", for good. What may pass, and a missing permission, never do.

    :param said: what the code or the connection says, where it says something we know.
    """
    if said is None:
        return status in {"NOT_FOUND", "INVALID_ARGUMENT"}
    return status == "NOT_FOUND" and said is BY_CODE["schema.meta.permission"]
