"""Rules of managed subscriptions, as functions on plain values: no clock, no lock, no stream.

Sources: the Managed Subscription and Handle Errors pages of the Pub/Sub API guide, the Tooling
API's ManagedEventSubscription, and logs of live orgs. The texts of commit errors are the emulator's
own; Salesforce publishes none.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.managed.subscription_config import ManagedRefusedError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

REPLAYS = ("LATEST", "EARLIEST")
CHANGEABLE = frozenset(
    {
        "developer_name",
        "label",
        "default_replay",
        "error_recovery_replay",
        "state",
        "version",
    }
)
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_TOPIC = re.compile(r"/event/\w+__(e|chn)|/data/(ChangeEvents|\w+ChangeEvent|\w+__chn)")
_VERSION = re.compile(r"\d{2,3}(\.0)?")
_CODE = "managed.subscription."


# --- configs --------------------------------------------------------------------------------------


def check_values(values: Mapping[str, Any]) -> None:
    """Check new values against the rules of their fields.

    :raises ManagedRefusedError: a value breaks a rule.
    """
    if "developer_name" in values:
        _check_name(str(values["developer_name"]))
    for field in ("default_replay", "error_recovery_replay"):
        if field in values and values[field] not in REPLAYS:
            raise ManagedRefusedError(
                "INVALID_INPUT", f"{field}: {values[field]!r} is not one of {', '.join(REPLAYS)}"
            )
    if "version" in values and not _VERSION.fullmatch(str(values["version"])):
        raise ManagedRefusedError(
            "INVALID_INPUT",
            f"version: {values['version']!r} is not an API version, for example 66.0",
        )
    if "state" in values and values["state"] not in {"RUN", "STOP"}:
        # PAUSE is in the enum and refused with this text.
        raise ManagedRefusedError(
            "INVALID_INPUT",
            "You can create a managed event subscription state field only to RUN or STOP",
        )


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name) or "__" in name:
        raise ManagedRefusedError(
            "INVALID_INPUT",
            f"developer name {name!r}: it must begin with a letter and hold letters, digits and "
            "single underscores",
        )


def check_topic(topic: str, known: Collection[str]) -> None:
    """Check that managed subscriptions support a topic.

    :param known: topics of the org.
    :raises ManagedRefusedError: the topic is of another kind, or the org does not have it.
    """
    if not _TOPIC.fullmatch(topic):
        raise ManagedRefusedError(
            "INVALID_INPUT",
            f"topic {topic!r} is not one of /event/X__e, /event/X__chn, /data/ChangeEvents, "
            "/data/XChangeEvent, /data/X__chn",
        )
    if topic not in known:
        raise ManagedRefusedError(
            "INVALID_INPUT",
            f"topic {topic!r} does not exist in this org; it has "
            f"{', '.join(sorted(known)) or 'none'}",
        )


def check_new(name: str, names: Collection[str], limit: int) -> None:
    """Check a new developer name and the limit of the org.

    :raises ManagedRefusedError: the name is in use, or the limit is reached.
    """
    if name in names:
        raise ManagedRefusedError(
            "DUPLICATE_DEVELOPER_NAME", f"the developer name {name!r} is in use; choose another"
        )
    if len(names) >= limit:
        raise ManagedRefusedError(
            "LIMIT_EXCEEDED", f"this org has its {limit} managed event subscriptions already"
        )


def check_changes(changes: Mapping[str, Any]) -> None:
    """Check a change of fields.

    :raises ManagedRefusedError: the topic is fixed, or a field is unknown.
    """
    for name in changes:
        if name == "topic":
            raise ManagedRefusedError(
                "INVALID_INPUT", "the topic of a managed subscription is fixed"
            )
        if name not in CHANGEABLE:
            raise ManagedRefusedError(
                "INVALID_FIELD", f"no field {name!r}; there are {', '.join(sorted(CHANGEABLE))}"
            )
    check_values(changes)


# --- requests -------------------------------------------------------------------------------------


def wanted(request: Any, both: str) -> str:
    """Id or developer name in a stream's first request.

    :param request: a ManagedFetchRequest.
    :param both: handling if both are given: `refuse`, or take the `id`.
    :raises RefusalError: the request cannot start a stream.
    """
    named = [one for one in (request.subscription_id, request.developer_name) if one.strip()]
    if not named or (len(named) > 1 and both == "refuse"):
        raise RefusalError(_CODE + "id.or.developer.name.empty")
    if request.HasField("commit_replay_id_request"):
        raise RefusalError(_CODE + "fetch.request.commit.request.restricted")
    if request.auth_refresh:
        raise RefusalError(_CODE + "fetch.request.auth.request.restricted")
    if request.subscription_id.strip() and not salesforce_ids.is_id(request.subscription_id):
        raise RefusalError(_CODE + "subscription.id.invalid")
    check_credit(request.num_requested)
    return str(named[0])


def unknown(request: Any) -> RefusalError:
    """Refusal for a subscription that does not exist or is not known yet."""
    by_id = bool(request.subscription_id.strip())
    return RefusalError(
        _CODE + ("subscription.id.not.found" if by_id else "developer.name.not.found")
    )


def check_credit(num_requested: int) -> None:
    """Check the requested number of events; zero is allowed in a request with a commit only.

    :raises RefusalError: less than zero.
    """
    if num_requested < 0:
        raise RefusalError(_CODE + "fetch.request.events.invalid")


def check_later(request: Any) -> None:
    """Check a request after the first.

    :raises RefusalError: the request is empty.
    """
    check_credit(request.num_requested)
    commits = request.HasField("commit_replay_id_request")
    if not (request.num_requested or commits or request.auth_refresh):
        raise RefusalError(_CODE + "fetch.request.invalid")


def check_state(state: str | None) -> None:
    """Check that a subscription can be served.

    :param state: state of its config; None if deleted.
    :raises RefusalError: the subscription is deleted or stopped.
    """
    if state is None:
        raise RefusalError(_CODE + "config.deleted")
    if state != "RUN":
        raise RefusalError(_CODE + "config.stopped")


# --- replay ids -----------------------------------------------------------------------------------


def start(committed: str, *, valid: bool, default: str, recovery: str) -> str:
    """Start of a stream: `committed`, or the preset that applies.

    :param valid: the bus accepts the committed id.
    """
    if not committed:
        return default
    return "committed" if valid else recovery


def commit_error(replay_id: bytes, *, valid: bool, delivered: int, committed: str) -> str:
    """Reason why a replay id cannot be committed; empty if it can.

    :param valid: the id refers to a position within retention.
    :param delivered: furthest position that this client has received.
    :param committed: committed replay id in hex.
    """
    if not replay_id:
        return "The commit request has no replay ID."
    position = salesforce_ids.position_of(replay_id)
    if position is None or not valid:
        return "The replay ID is invalid or outside the retention window."
    before = salesforce_ids.position_of(bytes.fromhex(committed)) if committed else None
    if before is not None and position < before:
        return "The replay ID is older than the one that is committed."
    # A client commits the same id again to keep a silent stream open, even if this stream has not
    # delivered it.
    if position > delivered and position != before:
        return "The replay ID can't be committed before its event was delivered."
    return ""
