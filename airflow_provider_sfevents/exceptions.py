"""Every error this package raises of its own; the axis is who has to act.

- `SfEventsError`
    - `ConfigurationError`: a user must change something; trying again changes nothing
        - `TopicError`: the topic does not exist, or this user may not have it
        - `ReplayIdRefused`: the bus does not know the replay id (expired, reset, rubbish)
        - `SchemaUnknown`: the service says that there is no schema of this id
        - `PositionConflict`: the stored position and the staging area or org contradict each other
    - `AuthenticationError`: Salesforce refused the credentials; trying again changes nothing
    - `TransportError`: the wire or the service failed; trying again is right
        - `QuotaExceeded`: an allowance of the org is used up; trying again soon is wrong
        - `PublishInterrupted`: some events may be on the bus, and the answer to them is lost
    - `EventsRefused`: the service took some of the published events and refused others
    - `StagingError`: the staging area could not be read or written, or holds what it must not
    - `BatchClaimed`: somebody else is at work on this batch; give way
    - `Stopped`: somebody ended the task while it was fetching; what came is kept
    - `NotLanded`: the Spark job left no receipt, or one that does not match the batch

Messages name the thing, the value and the remedy. Nothing here carries a secret.
"""

from __future__ import annotations

from typing import Any


class SfEventsError(Exception):
    """Root of all errors of this package; `str()` is fit for a user's log."""


class ConfigurationError(SfEventsError):
    """What the user gave cannot work; the message says what to change."""


class TopicError(ConfigurationError):
    """The topic does not exist, or the user may not subscribe or publish to it."""


class ReplayIdRefused(ConfigurationError):  # noqa: N818 - what happened, not an -Error
    """The bus refused the replay id: outside its 72 hours, from another org or instance, or rubbish."""


class SchemaUnknown(ConfigurationError):  # noqa: N818
    """The service answered that it has no schema of this id: asking again would get the same answer."""


class PositionConflict(ConfigurationError):  # noqa: N818
    """The stored position contradicts the staging area, the org or another task."""


class AuthenticationError(SfEventsError):
    """Salesforce refused the credentials or the session."""


class TransportError(SfEventsError):
    """The wire or the service failed in a way that passes.

    :param error_code: the service's `error-code` trailer, where it sent one.
    :param rpc_id: what Salesforce's support asks for, where the service sent one.
    """

    def __init__(self, message: str, error_code: str = "", rpc_id: str = "") -> None:
        super().__init__(message, error_code, rpc_id)
        self.message = message
        self.error_code = error_code
        self.rpc_id = rpc_id

    # Not marked as an override: typing_extensions is not everywhere where Spark runs.
    def __str__(self) -> str:  # type: ignore[explicit-override]
        return self.message


class QuotaExceeded(TransportError):  # noqa: N818
    """A daily or hourly allowance of the org is used up."""


class PublishInterrupted(TransportError):  # noqa: N818
    """Publishing broke off. To go on, publish what has no result again, under the same ids.

    :param uncertain: ids of the events that may be on the bus, by the numbers of their records.
    :param unsent: ids of those that certainly are not.
    :param results: a `PublishResult` for each of the others, unless it was handed out already.
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


class EventsRefused(SfEventsError):  # noqa: N818 - what happened, not an -Error
    """Some published events were refused for good, the others are on the bus; trying again sends those alone."""


class StagingError(SfEventsError):
    """The staging area could not be read or written, or its content contradicts itself."""


class LeaseGoneError(StagingError):
    """The record of this task's lease was removed from the staging area; trying again finds it no more."""


class BatchClaimed(SfEventsError):  # noqa: N818
    """Another task is at work on the same batch and is alive."""


class Stopped(SfEventsError):  # noqa: N818
    """The task was ended from outside while it fetched; its files are kept for the next try."""


class NotLanded(SfEventsError):  # noqa: N818
    """The Spark job ended without a receipt that matches the batch."""
