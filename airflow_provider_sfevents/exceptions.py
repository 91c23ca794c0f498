"""Every error that this package raises, ordered by the party that has to act.

- `SfEventsError`
    - `ConfigurationError`: a user must change something; a retry changes nothing
        - `TopicError`: the topic does not exist, or this user has no access to it
        - `ReplayIdRefusedError`: the bus does not know the replay id (expired, reset, invalid)
        - `SchemaUnknownError`: the service says that there is no schema of this id
        - `PositionConflictError`: the stored position contradicts the staging area or the org
    - `AuthenticationError`: Salesforce refused the credentials; a retry changes nothing
    - `TransportError`: the network or the service failed; a retry is right
        - `QuotaExceededError`: an allowance of the org is used up; a retry soon is wrong
        - `TransportTimeoutError`: the client's connection did not come back within its timeout
        - `PublishInterruptedError`: some events may be on the bus, and the answer to them is lost
    - `ServerError`: the service refused a request of `SalesforceStreamingClient`
        - `ReplayError`: the service refused the replay id of a subscription
    - `ClientClosedError`: the client is not open, and has no more messages
    - `EventsRefusedError`: the service accepted some of the published events and refused others
    - `StagingError`: the staging area could not be read or written, or has invalid content
        - `LeaseGoneError`: the file of the task's lease is gone; a retry takes a new lease
    - `LeaseHeldError`: another task is at work on this batch; give way
    - `StoppedError`: the task was ended while it was fetching; received events are kept
    - `NotLandedError`: the Spark job left no receipt, or a receipt that does not match the batch

Messages name the thing, the value and the remedy. No message holds a secret.
"""

from __future__ import annotations

from typing import Any


class SfEventsError(Exception):
    """Root of all errors of this package; `str()` is a message for a user's log."""


class ConfigurationError(SfEventsError):
    """A user's value cannot work; the message says what to change."""


class TopicError(ConfigurationError):
    """The topic does not exist, or the user may not subscribe or publish to it."""


class ReplayIdRefusedError(ConfigurationError):
    """The bus refused the replay id: over 72 hours old, of another org or instance, or invalid."""


class SchemaUnknownError(ConfigurationError):
    """The service has no schema of this id; a second request would get the same answer."""


class PositionConflictError(ConfigurationError):
    """The stored position contradicts the staging area, the org or another task."""


class AuthenticationError(SfEventsError):
    """Salesforce refused the credentials or the session."""


class TransportError(SfEventsError):
    """The network or the service failed in a way that passes.

    :param error_code: the service's `error-code` trailer, if it sent one.
    :param rpc_id: id for a case with Salesforce's support, if the service sent one.
    """

    def __init__(self, message: str, error_code: str = "", rpc_id: str = "") -> None:
        super().__init__(message, error_code, rpc_id)
        self.message = message
        self.error_code = error_code
        self.rpc_id = rpc_id

    # Not marked as an override: some Spark clusters do not have typing_extensions.
    def __str__(self) -> str:  # type: ignore[explicit-override]
        return self.message


class QuotaExceededError(TransportError):
    """A daily or hourly allowance of the org is used up."""


class PublishInterruptedError(TransportError):
    """Publishing was interrupted; publish the events without a result again, under the same ids.

    :param uncertain: ids of the events that may be on the bus, by the numbers of their records.
    :param unsent: ids of the events that certainly are not.
    :param results: a `PublishResult` for each of the others, unless it was returned already.
    """

    def __init__(
        self,
        message: str,
        error_code: str = "",
        rpc_id: str = "",
        uncertain: dict[int, str] | None = None,
        unsent: dict[int, str] | None = None,
        results: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(message, error_code, rpc_id)
        self.uncertain = dict(uncertain or {})
        self.unsent = dict(unsent or {})
        self.results = results
        self.args = (message, error_code, rpc_id, self.uncertain, self.unsent, results)

    @property
    def left(self) -> dict[int, str]:
        """Ids of all events without a result, by the numbers of their records, in order."""
        return dict(sorted({**self.uncertain, **self.unsent}.items()))


class TransportTimeoutError(TransportError):
    """The client lost its connection, and `connection_timeout` seconds did not bring it back."""


class ServerError(SfEventsError):
    """The service refused a request of the client, over either transport.

    :param error_message: the service's reason.
    :param error_code: the Streaming API's number, such as 400; None over the Pub/Sub API.
    """

    def __init__(self, error_message: str, error_code: int | None = None) -> None:
        super().__init__(error_message, error_code)
        self.error_message = error_message
        self.error_code = error_code

    # Not marked as an override: some Spark clusters do not have typing_extensions.
    def __str__(self) -> str:  # type: ignore[explicit-override]
        return self.error_message


class ReplayError(ServerError):
    """The service refused the replay id: expired, of another org or transport, or invalid."""


class ClientClosedError(SfEventsError):
    """The client is not open; a closed client has no more messages either."""


class EventsRefusedError(SfEventsError):
    """The service refused some of the published events for good; a retry sends only these."""


class StagingError(SfEventsError):
    """The staging area could not be read or written, or its content contradicts itself."""


class LeaseGoneError(StagingError):
    """The file of this task's lease was removed from the staging area; a retry takes a new one."""


class LeaseHeldError(SfEventsError):
    """Another task is at work on the same batch and is alive."""


class StoppedError(SfEventsError):
    """The task was ended from outside during its fetch; its files are kept for the next try."""


class NotLandedError(SfEventsError):
    """The Spark job ended without a receipt that matches the batch."""
