"""Meaning of each `error-code` of the Pub/Sub API.

The page docs/reference/errors.md is made from the same table.

From the API's page on handling errors, and from trailers seen on live orgs. A code decides, never
the status beside it: an unknown topic comes as NOT_FOUND or as PERMISSION_DENIED, an unavailable
service as INTERNAL. The one exception: it is not documented with which code GetSchema refuses an
unknown id, so there a NOT_FOUND is believed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

PREFIX = "sfdc.platform.eventbus.grpc."


class ErrorKind(Enum):
    """The party that has to act."""

    CONFIGURATION = "the user changes the configuration"
    TOPIC = "the user changes the topic or its permissions"
    REPLAY_ID = "the user chooses another start"
    SCHEMA = "the service has no such schema"
    TOKEN = "a new session helps"  # noqa: S105 - no password
    AUTHENTICATION = "the user changes the credentials"
    TRANSIENT = "trying again helps"
    OWN_FAULT = "this client broke a rule of the service; trying again repeats it"
    QUOTA = "waiting helps, trying again soon does not"


_NEVER = "no"
_TASK_ALONE = "by the task's retries alone"

RETRIED: dict[ErrorKind, str] = {
    ErrorKind.CONFIGURATION: _NEVER,
    ErrorKind.TOPIC: _NEVER,
    ErrorKind.REPLAY_ID: _NEVER,
    ErrorKind.SCHEMA: _NEVER,
    ErrorKind.TOKEN: "once, after a new login",
    ErrorKind.AUTHENTICATION: _NEVER,
    ErrorKind.TRANSIENT: "yes, with growing pauses; then by the task's retries",
    ErrorKind.OWN_FAULT: _TASK_ALONE,
    ErrorKind.QUOTA: _NEVER,
}
"""Retries of each kind, in words for users."""


@dataclass(frozen=True, slots=True)
class ErrorMeaning:
    """Kind and remedy of an error. :param remedy: the user's action."""

    kind: ErrorKind
    remedy: str


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """A row of the table.

    :param suffix: of the `error-code`, behind `PREFIX`.
    :param means: the event that the code reports, in one sentence.
    """

    suffix: str
    means: str
    meaning: ErrorMeaning


_TOPIC = ErrorMeaning(
    ErrorKind.TOPIC,
    "Check the topic's spelling (it is case-sensitive, as in /event/Order__e or "
    "/data/AccountChangeEvent), that it exists in this org, and that the connection's user may "
    "read it. A standard-volume platform event exists over the Streaming API only: give the task "
    "transport='streaming'.",
)
_REPLAY_ID = ErrorMeaning(
    ErrorKind.REPLAY_ID,
    "The replay id is older than the 72 hours the bus keeps, from before a reset of the bus, "
    "from another org, or malformed. Choose where to start: earliest, latest, or a replay id "
    "that is known to be good.",
)
_AGAIN = ErrorMeaning(ErrorKind.TRANSIENT, "This passes: try again.")
SLOWER = ErrorMeaning(
    ErrorKind.TRANSIENT,
    "The service protects itself: try again, with fewer subscriptions and publishes at once.",
)
OURS = ErrorMeaning(
    ErrorKind.OWN_FAULT, "This is a fault of the client: please report it, with the rpc id."
)
NEW_TOKEN = ErrorMeaning(
    ErrorKind.TOKEN, "The session has expired or was revoked, or is bound to another IP address."
)
_MANAGED = ErrorMeaning(
    ErrorKind.CONFIGURATION,
    "Check the managed event subscription's id or developer name in the org's setup.",
)
_MANAGED_NEW = ErrorMeaning(
    ErrorKind.TRANSIENT,
    "Check its id or developer name; a subscription just created is known to the service only "
    "after some minutes.",
)

CODES: tuple[ErrorCode, ...] = (
    ErrorCode(
        "service.unavailable",
        "The service is away just now.",
        _AGAIN,
    ),
    ErrorCode(
        "service.auth.error",
        "The service does not accept the session: it has expired, was revoked, or is bound to "
        "another address; after a release of Salesforce too.",
        NEW_TOKEN,
    ),
    ErrorCode(
        "service.auth.headers.invalid",
        "One of the three headers of every call (token, instance URL, org id) is blank or invalid.",
        ErrorMeaning(
            ErrorKind.AUTHENTICATION,
            "Check the connection's instance URL and org id: one is blank or invalid.",
        ),
    ),
    ErrorCode(
        "service.auth.refresh.invalid",
        "A request carried a renewal of the session that the service does not take.",
        OURS,
    ),
    ErrorCode(
        "service.protection.stream.limit.triggered",
        "More requests came on one stream than the service has resources for.",
        SLOWER,
    ),
    ErrorCode(
        "service.protection.triggered",
        "More connections or requests came than the service has resources for.",
        SLOWER,
    ),
    ErrorCode(
        "service.tenant.license",
        "The org has no licence for the Pub/Sub API.",
        ErrorMeaning(
            ErrorKind.CONFIGURATION,
            "The org's licences do not include the Pub/Sub API: ask Salesforce.",
        ),
    ),
    ErrorCode(
        "concurrent.client.limit.exceeded",
        "The org has as many publishers and subscribers at once as it may have.",
        ErrorMeaning(
            ErrorKind.TRANSIENT,
            "The org has as many publishers and subscribers as it may: one more is admitted when "
            "one of them ends. Try again; if it stays, stop some.",
        ),
    ),
    ErrorCode(
        "topic.not.found",
        "There is no such topic.",
        _TOPIC,
    ),
    ErrorCode(
        "topic.meta.permission",
        "The service does not describe this topic: it does not exist, or the user may not see it.",
        _TOPIC,
    ),
    ErrorCode(
        "topic.api.unavailable",
        "The service cannot read the topic's metadata just now.",
        _AGAIN,
    ),
    ErrorCode(
        "topic.validation.empty",
        "A request without a topic.",
        _TOPIC,
    ),
    ErrorCode(
        "schema.meta.permission",
        "The user may not read the schema.",
        ErrorMeaning(
            ErrorKind.CONFIGURATION,
            "The connection's user may not read this schema: grant read on the event.",
        ),
    ),
    ErrorCode(
        "schema.api.unavailable",
        "The service cannot read the schema just now.",
        _AGAIN,
    ),
    ErrorCode(
        "schema.validation.failed",
        "A request without a schema id.",
        ErrorMeaning(ErrorKind.SCHEMA, "The schema id is blank."),
    ),
    ErrorCode(
        "subscription.fetch.replayid.corrupted",
        "The bus does not know the replay id: too old, from before a reset, of another org, or "
        "malformed.",
        _REPLAY_ID,
    ),
    ErrorCode(
        "subscription.fetch.replayid.validation.failed",
        "A subscription after a replay id came without one.",
        _REPLAY_ID,
    ),
    ErrorCode(
        "subscription.fetch.replay.repeated",
        "An event had a lower replay id than the one before it; the subscription starts again.",
        _AGAIN,
    ),
    ErrorCode(
        "subscription.limit.exceeded",
        "The org's allowance of deliveries in 24 hours is used up.",
        ErrorMeaning(
            ErrorKind.QUOTA,
            "The org's allowance of delivered events for 24 hours is used up. Wait, reduce other "
            "subscribers, or buy more; events stay on the bus for 72 hours.",
        ),
    ),
    ErrorCode(
        "subscription.fetch.overflow",
        "More events were requested than were taken.",
        OURS,
    ),
    ErrorCode(
        "subscription.fetch.requested.events.invalid",
        "A request for no events, or for a negative number.",
        OURS,
    ),
    ErrorCode(
        "subscription.fetch.topic.mismatch",
        "A later request of a stream names another topic than the first.",
        OURS,
    ),
    ErrorCode(
        "subscription.fetch.request.invalid",
        "A request that lacks the renewal of its session.",
        OURS,
    ),
    ErrorCode(
        "subscription.topic.cannot.subscribe",
        "The user may not read the event.",
        ErrorMeaning(ErrorKind.TOPIC, "Grant the connection's user read permission on the event."),
    ),
    ErrorCode(
        "subscription.internal.error",
        "The service had an internal error.",
        _AGAIN,
    ),
    ErrorCode(
        "publish.stream.sweeper.timeout",
        "Nothing was published on the stream for as long as it may be idle.",
        _AGAIN,
    ),
    ErrorCode(
        "publish.auth.refresh.invalid",
        "The first request of a stream carried a renewal of its session.",
        OURS,
    ),
    ErrorCode(
        "publish.event.count.invalid",
        "A request to publish without an event.",
        OURS,
    ),
    ErrorCode(
        "publish.topic.mismatch",
        "A later request of a stream names another topic than the first.",
        OURS,
    ),
    ErrorCode(
        "publish.topic.validation.empty",
        "A request to publish without a topic.",
        _TOPIC,
    ),
    ErrorCode(
        "managed.subscription.already.active",
        "Another client holds the subscription, or a client that ended just now still does.",
        ErrorMeaning(
            ErrorKind.TRANSIENT,
            "Another client holds this subscription, or one just did: stop it, or try again in "
            "some minutes.",
        ),
    ),
    ErrorCode(
        "managed.subscription.config.stopped",
        "The managed subscription is stopped.",
        ErrorMeaning(ErrorKind.CONFIGURATION, "Set the subscription's state to RUN."),
    ),
    ErrorCode(
        "managed.subscription.config.deleted",
        "The managed subscription was deleted.",
        _MANAGED,
    ),
    ErrorCode(
        "managed.subscription.developer.name.not.found",
        "No managed subscription has this developer name; a new one is known after some minutes.",
        _MANAGED_NEW,
    ),
    ErrorCode(
        "managed.subscription.subscription.id.not.found",
        "No managed subscription has this id; a new one is known after some minutes.",
        _MANAGED_NEW,
    ),
    ErrorCode(
        "managed.subscription.subscription.id.invalid",
        "The given text is no id: it has neither 15 nor 18 characters.",
        _MANAGED,
    ),
    ErrorCode(
        "managed.subscription.id.or.developer.name.empty",
        "Neither id nor developer name was given, or both were.",
        _MANAGED,
    ),
    ErrorCode(
        "managed.subscription.fetch.request.events.invalid",
        "A request for a negative number of events.",
        OURS,
    ),
    ErrorCode(
        "managed.subscription.fetch.request.invalid",
        "A request with neither a commit nor a renewal of the session.",
        OURS,
    ),
    ErrorCode(
        "managed.subscription.fetch.request.commit.request.restricted",
        "A commit in the first request of a stream.",
        OURS,
    ),
    ErrorCode(
        "managed.subscription.fetch.request.auth.request.restricted",
        "A renewal of the session in the first request of a stream.",
        OURS,
    ),
)
"""Every code that is documented or was seen, in the order of the API's page on errors."""

BY_CODE: dict[str, ErrorMeaning] = {one.suffix: one.meaning for one in CODES}

INSIDE_ANSWERS: tuple[tuple[str, str], ...] = (
    (
        "PUBLISH",
        "One event of a request was refused, such as one of more than 1 MB; the others were not.",
    ),
    (
        "COMMIT",
        "A managed subscription could not commit a replay id: none was given, it is not valid or "
        "has left the bus, its event was not delivered yet, or a later one is committed already. "
        "The earlier commit stays.",
    ),
)
"""Code and meaning of failures that an answer reports for one item in it.

The call and its stream continue. The texts are not documented.
"""
