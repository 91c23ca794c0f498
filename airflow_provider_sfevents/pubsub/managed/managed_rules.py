"""Rules of managed subscriptions: checks, retries, recognition of known events, commits. Pure.

From the Managed Subscription page of the Pub/Sub API guide, its page on handling errors, and live
logs.

1. The service starts a stream after the replay id that was committed last; without one at
   `defaultReplay`, and if that one has left the bus at `errorRecoveryReplay`. Nothing else decides
   the start.
2. One client at a time. A slot is free again within 15 s of a half-close; that of a client whose
   network died takes some 15 minutes.
3. So after a lost stream or a dead process, events that were not committed are delivered again.
   They come first, and in the same order: known events, from the first event of a stream on, are
   left out. The first unknown event ends that for this stream: a known event after it would come in
   another order than it was staged in, and landing compares ids anyhow.
4. A stream without a commit for 1,800 s is closed. So the replay id is committed again if no other
   commit is due.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.pubsub import reconnect
from airflow_provider_sfevents.pubsub.error_codes import PREFIX
from airflow_provider_sfevents.pubsub.reconnect import Retry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.exceptions import SfEventsError
    from airflow_provider_sfevents.pubsub.timeouts import Timeouts

EARLIEST, LATEST = "EARLIEST", "LATEST"

COMMIT_EVERY_SECONDS = 600.0
"""A third of the service's limit between two commits: one may fail."""

_SLOT_TAKEN = f"{PREFIX}managed.subscription.already.active"
_NOT_KNOWN = frozenset(
    {
        f"{PREFIX}managed.subscription.developer.name.not.found",
        f"{PREFIX}managed.subscription.subscription.id.not.found",
    }
)
_ID = re.compile(r"18x(?:[A-Za-z0-9]{12}|[A-Za-z0-9]{15})")
_NAME = re.compile(r"[A-Za-z](?:_?[A-Za-z0-9])*")


class SlotTakenError(TransportError):
    """Another client uses the managed subscription; Salesforce allows one at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionConfig:
    """A ManagedEventSubscription as the org's setup has it (Tooling API, from version 60.0).

    :param default_replay: `LATEST` or `EARLIEST`: the start while nothing is committed.
    :param error_recovery_replay: likewise, once the committed replay id is no longer valid.
    :param state: `RUN` or `STOP`.
    """

    id: str
    developer_name: str
    topic: str
    default_replay: str
    error_recovery_replay: str
    state: str


def is_id(reference: str) -> bool:
    """True if the text is an id; a developer name begins with a letter."""
    return _ID.fullmatch(reference) is not None


def check_reference(reference: object) -> str:
    """Check an id or developer name.

    :raises ConfigurationError: it can be neither of a managed event subscription.
    """
    if isinstance(reference, str) and (is_id(reference) or _NAME.fullmatch(reference)):
        return reference
    raise ConfigurationError(
        f"managed_subscription={reference!r} names no managed event subscription: give its "
        "developer name (letters, digits, single underscores), or its id, 15 or 18 characters "
        "that begin with 18x."
    )


def check_config(config: SubscriptionConfig, topic: str, *, allow_latest_recovery: bool) -> None:
    """Check a subscription for its use.

    :raises ConfigurationError: it would not deliver, delivers another topic, or may lose events
        silently.
    """
    name = f"Managed event subscription {config.developer_name} ({config.id})"
    if config.topic != topic:
        raise ConfigurationError(
            f"{name} has topic {config.topic}, and the task's topic is {topic}. Give the task "
            "that topic, or another subscription: a subscription's topic cannot be changed."
        )
    if config.state != "RUN":
        raise ConfigurationError(
            f"{name} has state {config.state}: nothing is delivered. Set it to RUN. Salesforce "
            "has dropped its committed replay id, so it continues at its defaultReplay, "
            f"{config.default_replay}."
        )
    if config.error_recovery_replay != EARLIEST and not allow_latest_recovery:
        raise ConfigurationError(
            f"{name} has errorRecoveryReplay {config.error_recovery_replay}: if its committed "
            "replay id leaves the bus (72 hours), Salesforce continues with the next new event, "
            "and the events before it are lost silently. Set it to EARLIEST; or accept that by "
            "allow_latest_recovery=True."
        )


def next_step(
    error: SfEventsError,
    *,
    tries: int,
    renewed: bool,
    chance: float,
    waited_seconds: float,
    timeouts: Timeouts,
    max_tries: int | None = reconnect.MAX_TRIES,
) -> Retry | None:
    """Open another stream, or give up.

    As `reconnect.next_step`, with longer waits for a slot and for a new subscription.

    :param waited_seconds: for the same refusal, in a row.
    """
    code = error.error_code if isinstance(error, TransportError) else ""
    if code == _SLOT_TAKEN:
        return _again(waited_seconds, timeouts.slot_seconds, chance)
    if code in _NOT_KNOWN:
        return _again(waited_seconds, timeouts.propagation_seconds, chance)
    return reconnect.next_step(
        error, tries=tries, renewed=renewed, chance=chance, max_tries=max_tries
    )


def _again(waited: float, limit_seconds: float, chance: float) -> Retry | None:
    if waited >= limit_seconds:
        return None
    return Retry(wait_seconds=limit_seconds / 30 * (1 + chance))


def is_refused_for_now(error: SfEventsError) -> bool:
    """True if another client has the slot, or the service does not know the subscription (yet)."""
    return isinstance(error, TransportError) and (
        error.error_code == _SLOT_TAKEN or error.error_code in _NOT_KNOWN
    )


def explained(error: SfEventsError, reference: str, waited_seconds: float) -> SfEventsError:
    """The error for users, after the wait has ended."""
    if not isinstance(error, TransportError):
        return error
    if error.error_code == _SLOT_TAKEN:
        return SlotTakenError(
            f"Managed subscription {reference} has another client, and the service admits one at "
            f"a time; the task waited {waited_seconds:.0f} s for it. It may be a deferred "
            "sensor, a watcher or another run that listens now, or a client elsewhere: end it. "
            "A client that was killed loses the slot within seconds, one whose network died "
            f"after some 15 minutes. Nothing was spent. {error}",
            error.error_code,
            error.rpc_id,
        )
    if error.error_code in _NOT_KNOWN:
        return TransportError(
            f"Managed subscription {reference} is set up in the org, but the Pub/Sub API does "
            f"not know it yet; the task waited {waited_seconds:.0f} s. A change takes some "
            f"minutes to reach it: try again. {error}",
            error.error_code,
            error.rpc_id,
        )
    return error


def leading_known(
    replay_ids: Sequence[bytes], event_ids: Sequence[str], known: Mapping[bytes, str]
) -> int:
    """Number of events, from the first on, that were staged before.

    :param known: event ids by replay id. Both have to be the same: after a reset of the bus a
        replay id may denote another event.
    """
    count = 0
    for replay_id, event_id in zip(replay_ids, event_ids, strict=True):
        if known.get(replay_id) != event_id:
            break
        count += 1
    return count


def answered_commits(outstanding: Sequence[str], answered: str) -> tuple[str, ...]:
    """Commits that an answer settles: several may have one answer, with the values of the last.

    :param outstanding: request ids without an answer, in the order they were sent.
    :param answered: the request id of the answer; one that is not outstanding settles nothing.
    """
    if answered not in outstanding:
        return ()
    return tuple(outstanding[: outstanding.index(answered) + 1])


def may_commit_keepalive(*, received: int, kept: int) -> bool:
    """True if a keepalive's replay id may be committed: no event before it lacks a manifest.

    :param received: events of this stream that were new.
    :param kept: events in closed files of the next batch.
    """
    return not received and not kept


def is_commit_due(since_last_seconds: float, replay_id: str) -> bool:
    """True if the committed replay id is committed again, so that the stream is not closed."""
    return bool(replay_id) and since_last_seconds >= COMMIT_EVERY_SECONDS
