"""Errors of the emulator: mistakes of its user, and refusals that clients receive.

The texts and statuses of refusals are Salesforce's if known (Pub/Sub API guide, "Handle Errors",
and logs of live orgs); unpublished statuses follow the meaning of the code.
"""

from __future__ import annotations

PREFIX = "sfdc.platform.eventbus.grpc."
STATUSES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)


class EmulatorError(Exception):
    """The emulator cannot do what its user asked; the message says what to change."""


class PortInUseError(EmulatorError):
    """The requested port is in use."""


class UnwritableError(EmulatorError):
    """The emulator cannot write its folder, as on a full disk; nothing of the change is stored."""


class RefusalError(Exception):
    """Refusal that ends an RPC with an error.

    :param code: `error-code` trailer without its common prefix; empty for a transport error, which
        carries no trailers.
    :param status: name of the gRPC status.
    """

    def __init__(self, code: str, status: str = "", message: str = "") -> None:
        known_status, known_message = KNOWN.get(code, ("INTERNAL", "An internal error occurred."))
        self.code = code
        self.status = status or known_status
        self.message = message or known_message
        super().__init__(f"{self.status} {self.code}: {self.message}")

    @property
    def error_code(self) -> str:
        """Full error code, as in the trailer."""
        return PREFIX + self.code if self.code else ""


MANAGED: dict[str, tuple[str, str]] = {
    "already.active": (
        "ALREADY_EXISTS",
        "An active managed subscription with the same ID already exists. If a previous "
        "subscription with the same ID was "
        "stopped, there can be a delay before it expires. Try subscribing again later.",
    ),
    "config.stopped": ("FAILED_PRECONDITION", "The managed subscription is stopped."),
    "config.deleted": ("NOT_FOUND", "The managed subscription was deleted."),
    "developer.name.not.found": (
        "NOT_FOUND",
        "No managed subscription with this developer name was found.",
    ),
    "subscription.id.not.found": ("NOT_FOUND", "No managed subscription with this ID was found."),
    "subscription.id.invalid": (
        "INVALID_ARGUMENT",
        "The subscription ID must have 15 or 18 characters.",
    ),
    "id.or.developer.name.empty": (
        "INVALID_ARGUMENT",
        "Provide either subscription_id or developer_name, and not both.",
    ),
    "fetch.request.events.invalid": (
        "INVALID_ARGUMENT",
        "The num_requested field must be 0 or greater.",
    ),
    "fetch.request.invalid": (
        "INVALID_ARGUMENT",
        "The request is missing the CommitReplayRequest or the auth refresh.",
    ),
    "fetch.request.commit.request.restricted": (
        "INVALID_ARGUMENT",
        "The first ManagedFetchRequest can't have a CommitReplayRequest.",
    ),
    "fetch.request.auth.request.restricted": (
        "INVALID_ARGUMENT",
        "The first ManagedFetchRequest can't have an auth_refresh.",
    ),
}
"""Codes of ManagedSubscribe, after their prefix `managed.subscription.`"""

KNOWN: dict[str, tuple[str, str]] = {
    "service.unavailable": ("INTERNAL", "The service is unavailable. Try again later."),
    "service.auth.error": (
        "UNAUTHENTICATED",
        "An authentication exception occurred. Provide valid authentication via metadata headers.",
    ),
    "service.auth.headers.invalid": (
        "UNAUTHENTICATED",
        "The authentication headers are missing or blank. Provide accesstoken, instanceurl and "
        "tenantid.",
    ),
    "service.protection.triggered": (
        "RESOURCE_EXHAUSTED",
        "The service received too many requests.",
    ),
    "service.protection.stream.limit.triggered": (
        "RESOURCE_EXHAUSTED",
        "The service received too many FetchRequests and doesn't have the resources to accept new "
        "requests.",
    ),
    "topic.not.found": ("NOT_FOUND", "The topic was not found."),
    "topic.meta.permission": (
        "PERMISSION_DENIED",
        "An error occurred while getting the topic's metadata.",
    ),
    "topic.validation.empty": ("INVALID_ARGUMENT", "The topic name is empty."),
    "topic.api.unavailable": (
        "UNAVAILABLE",
        "The topic's metadata is unavailable. Try again later.",
    ),
    "schema.validation.failed": ("INVALID_ARGUMENT", "The schema ID is empty."),
    "schema.meta.permission": ("PERMISSION_DENIED", "An error occurred while getting the schema."),
    "schema.api.unavailable": ("UNAVAILABLE", "The schema is unavailable. Try again later."),
    "subscription.fetch.replayid.corrupted": (
        "INVALID_ARGUMENT",
        "The Replay ID validation failed. Ensure that the replay_id field value in FetchRequest "
        "is valid and refers "
        "to an event that is within the retention window.",
    ),
    "subscription.fetch.replayid.validation.failed": (
        "INVALID_ARGUMENT",
        "The replay_id field is empty. Provide it when replay_preset is CUSTOM.",
    ),
    "subscription.fetch.requested.events.invalid": (
        "INVALID_ARGUMENT",
        "The num_requested field must be greater than 0.",
    ),
    "subscription.fetch.topic.mismatch": (
        "INVALID_ARGUMENT",
        "The topic differs from the one in the first FetchRequest of this stream.",
    ),
    "subscription.fetch.overflow": (
        "RESOURCE_EXHAUSTED",
        "More events were requested than are drained.",
    ),
    "subscription.limit.exceeded": (
        "RESOURCE_EXHAUSTED",
        "You have exceeded the event delivery limit for your org.",
    ),
    "subscription.topic.cannot.subscribe": (
        "PERMISSION_DENIED",
        "The user can't subscribe to the topic.",
    ),
    "subscription.internal.error": ("INTERNAL", "An internal error occurred in the subscription."),
    "publish.event.count.invalid": ("INVALID_ARGUMENT", "The request has no events to publish."),
    "publish.topic.validation.empty": ("INVALID_ARGUMENT", "The topic name is empty."),
    "publish.topic.cannot.publish": ("PERMISSION_DENIED", "The user can't publish to the topic."),
    "service.auth.refresh.invalid": ("UNAUTHENTICATED", "The auth_refresh field is invalid."),
    "service.tenant.license": ("PERMISSION_DENIED", "The org isn't licensed for this service."),
    "concurrent.client.limit.exceeded": (
        "RESOURCE_EXHAUSTED",
        "The maximum number of concurrent clients was exceeded.",
    ),
    "subscription.fetch.replay.repeated": (
        "INTERNAL",
        "An event came with a lower replay ID than the one before.",
    ),
    "subscription.fetch.request.invalid": (
        "INVALID_ARGUMENT",
        "The fetch request is missing the auth refresh.",
    ),
    "publish.stream.sweeper.timeout": (
        "DEADLINE_EXCEEDED",
        "No PublishRequest came for too long. Closing the stream.",
    ),
    "publish.auth.refresh.invalid": (
        "INVALID_ARGUMENT",
        "The first PublishRequest can't have an auth_refresh.",
    ),
    "publish.topic.mismatch": (
        "INVALID_ARGUMENT",
        "The topic differs from the one in the first PublishRequest of this stream.",
    ),
    **{f"managed.subscription.{code}": known for code, known in MANAGED.items()},
}

UNDOCUMENTED = frozenset({"publish.topic.cannot.publish"})
"""Codes without a source.

The service must refuse there, and its code is not documented; this one follows the code for
subscribing.
"""
