"""What managed subscriptions allow and do. Plain functions on plain values: no clock, no lock, no stream.

Sources: the Managed Subscription and Handle Errors pages of the Pub/Sub API guide, the Tooling API's
ManagedEventSubscription, and logs of live orgs. Texts of commit errors are ours, Salesforce publishes none.
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


# --- configs ---------------------------------------------------------------------------------------------------------


def check_values(values: Mapping[str, Any]) -> None:
    """Hold what is to be set against the rules of its field.

    :raises ManagedRefusedError: for the first that breaks one.
    """
    if "developer_name" in values:
        _check_name(str(values["developer_name"]))
    for field in ("default_replay", "error_recovery_replay"):
        if field in values and values[field] not in REPLAYS:
            raise ManagedRefusedError(
                "INVALID_INPUT", f"{field}: {values[field]!r} is none of {', '.join(REPLAYS)}"
            )
    if "version" in values and not _VERSION.fullmatch(str(values["version"])):
        raise ManagedRefusedError(
            "INVALID_INPUT", f"version: {values['version']!r} is none of the API, such as 66.0"
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
            f"developer name {name!r}: it must begin with a letter and hold letters, digits and single underscores",
        )


def check_topic(topic: str, known: Collection[str]) -> None:
    """Hold a topic against what can be subscribed to in this way.

    :param known: topics of the org.
    :raises ManagedRefusedError: for one of another kind, and for one the org does not have.
    """
    if not _TOPIC.fullmatch(topic):
        raise ManagedRefusedError(
            "INVALID_INPUT",
            f"topic {topic!r} is none of /event/X__e, /event/X__chn, /data/ChangeEvents, /data/XChangeEvent, /data/X__chn",
        )
    if topic not in known:
        raise ManagedRefusedError(
            "INVALID_INPUT",
            f"topic {topic!r} does not exist in this org; it has {', '.join(sorted(known)) or 'none'}",
        )


def check_new(name: str, names: Collection[str], limit: int) -> None:
    """:raises ManagedRefusedError: for a name that is taken, and beyond the limit of an org."""
    if name in names:
        raise ManagedRefusedError(
            "DUPLICATE_DEVELOPER_NAME", f"the developer name {name!r} is in use; choose another"
        )
    if len(names) >= limit:
        raise ManagedRefusedError(
            "LIMIT_EXCEEDED", f"this org has its {limit} managed event subscriptions already"
        )


def check_changes(changes: Mapping[str, Any]) -> None:
    """:raises ManagedRefusedError: for the topic, which never changes, and for what is no field."""
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


# --- requests --------------------------------------------------------------------------------------------------------


def wanted(request: Any, both: str) -> str:
    """Id or developer name that a stream's first request asks for.

    :param request: a ManagedFetchRequest.
    :param both: what is done where both are given: `refuse`, or take the `id`.
    :raises RefusalError: when the request cannot begin a stream.
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
    """What is said when the subscription asked for does not exist, or is not known yet."""
    by_id = bool(request.subscription_id.strip())
    return RefusalError(
        _CODE + ("subscription.id.not.found" if by_id else "developer.name.not.found")
    )


def check_credit(num_requested: int) -> None:
    """:raises RefusalError: for less than zero. Zero is fine: a request may be about a commit alone."""
    if num_requested < 0:
        raise RefusalError(_CODE + "fetch.request.events.invalid")


def check_later(request: Any) -> None:
    """Look at a request that is not the first.

    :raises RefusalError: when it asks for nothing at all.
    """
    check_credit(request.num_requested)
    commits = request.HasField("commit_replay_id_request")
    if not (request.num_requested or commits or request.auth_refresh):
        raise RefusalError(_CODE + "fetch.request.invalid")


def check_state(state: str | None) -> None:
    """May a subscription be served.

    :param state: None when its config was deleted.
    :raises RefusalError: when it may not.
    """
    if state is None:
        raise RefusalError(_CODE + "config.deleted")
    if state != "RUN":
        raise RefusalError(_CODE + "config.stopped")


# --- places ----------------------------------------------------------------------------------------------------------


def start(committed: str, *, valid: bool, default: str, recovery: str) -> str:
    """Where a stream starts: `committed`, or the preset that holds.

    :param valid: whether the bus still takes the committed id.
    """
    if not committed:
        return default
    return "committed" if valid else recovery


def commit_error(replay_id: bytes, *, valid: bool, delivered: int, committed: str) -> str:
    """Why a replay id cannot be committed; empty when it can.

    :param valid: whether it names a place within retention.
    :param delivered: the furthest place this client has heard of.
    :param committed: what is committed now, in hex.
    """
    if not replay_id:
        return "The commit request has no replay ID."
    position = salesforce_ids.position_of(replay_id)
    if position is None or not valid:
        return "The replay ID is invalid or outside the retention window."
    before = salesforce_ids.position_of(bytes.fromhex(committed)) if committed else None
    if before is not None and position < before:
        return "The replay ID is older than the one that is committed."
    # The same place again is how a client keeps a silent stream open; it need not have been delivered on this one.
    if position > delivered and position != before:
        return "The replay ID can't be committed before its event was delivered."
    return ""
