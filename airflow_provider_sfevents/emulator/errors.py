"""What the emulator says no with: errors of its own user, and refusals a client gets over the wire.

The texts and statuses of refusals are Salesforce's where they are known (Pub/Sub API guide, "Handle Errors", and logs
of live orgs); statuses nobody has published follow the meaning of the code.
"""

from __future__ import annotations

PREFIX = "sfdc.platform.eventbus.grpc."


class EmulatorError(Exception):
    """The person who runs the emulator asked for what it cannot do; the message says what to change."""


class PortInUse(EmulatorError):  # noqa: N818 - what happened, not an -Error
    """A port that was asked for is taken."""


class Refusal(Exception):  # noqa: N818
    """An RPC ends with an error.

    :param code: the `error-code` trailer without its common prefix; empty for an error of the transport, which
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
        """As in the trailer."""
        return PREFIX + self.code if self.code else ""


KNOWN: dict[str, tuple[str, str]] = {
    "service.unavailable": ("INTERNAL", "The service is unavailable. Try again later."),
    "service.auth.error": (
        "UNAUTHENTICATED",
        "An authentication exception occurred. Provide valid authentication via metadata headers.",
    ),
    "service.auth.headers.invalid": (
        "UNAUTHENTICATED",
        "The authentication headers are missing or blank. Provide accesstoken, instanceurl and tenantid.",
    ),
    "service.protection.triggered": (
        "RESOURCE_EXHAUSTED",
        "The service received too many requests.",
    ),
    "service.protection.stream.limit.triggered": (
        "RESOURCE_EXHAUSTED",
        "The service received too many FetchRequests and doesn't have the resources to accept new requests.",
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
        "The Replay ID validation failed. Ensure that the replay_id field value in FetchRequest is valid and refers "
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
    # Not published anywhere; made after the code for subscribing.
    "publish.topic.cannot.publish": ("PERMISSION_DENIED", "The user can't publish to the topic."),
}
