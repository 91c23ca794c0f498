"""Generic channels: checks of their records, and events pushed to them. No I/O, no clock.

Sources: Streaming API Developer Guide, "Generic Streaming", "Streaming Channel Push" and the object
reference, "StreamingChannel".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus.topic import BusTopic
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_sfevents.emulator.org.records.record_edits import Record

STREAMING_CHANNEL = "StreamingChannel"
PREFIX = "/u/"
MOST_CHARACTERS = 3_000
"""Longest payload of a generic event."""


def check(record: Record, others: Sequence[Record], most: int | None) -> None:
    """Check the record of a generic channel.

    The codes of the refusals are not known for live orgs.

    :param others: the org's other generic channels, deleted or not.
    :param most: channels that an org may have; None for no limit.
    :raises RecordRefusedError: the name is not allowed or taken, or the org has enough channels.
    """
    name = str(record.get("Name"))
    kept = [str(one.get("Name")) for one in others if one.deleted_at is None]
    if not name.startswith(PREFIX) or name == PREFIX or name.endswith("/") or "*" in name:
        raise RecordRefusedError(
            "FIELD_INTEGRITY_EXCEPTION", f"the name of a channel begins with {PREFIX}", ("Name",)
        )
    if name.lower() in {one.lower() for one in kept}:
        raise RecordRefusedError("DUPLICATE_VALUE", f"a channel is named {name}", ("Name",))
    if most is not None and len(kept) >= most:
        raise RecordRefusedError("LIMIT_EXCEEDED", f"the org has {most} channels already")


def topic(record: Record) -> BusTopic:
    """Topic of a generic channel."""
    return BusTopic(name=str(record.get("Name")), kind="generic", streaming_only=True)


def pushed(body: Any) -> list[tuple[str, tuple[str, ...]]]:
    """Payload and users of each event in the body of a push request; no users for all.

    :raises RecordRefusedError: the body has another form, or a payload is too long.
    """
    events = body.get("pushEvents") if isinstance(body, dict) else None
    if not isinstance(events, list) or not all(isinstance(one, dict) for one in events):
        raise RecordRefusedError("JSON_PARSER_ERROR", "pushEvents is not a list of JSON objects")
    found = []
    for one in events:
        payload, user_ids = one.get("payload"), one.get("userIds") or []
        if not isinstance(payload, str) or not _are_ids(user_ids):
            raise RecordRefusedError(
                "JSON_PARSER_ERROR", "payload is not text, or userIds not a list of user ids"
            )
        if len(payload) > MOST_CHARACTERS:
            raise RecordRefusedError(
                "STRING_TOO_LONG", f"payload: data value too large (max length={MOST_CHARACTERS})"
            )
        found.append((payload, tuple(salesforce_ids.long_id(user[:15]) for user in user_ids)))
    return found


def push_result(user_ids: Sequence[str], online: Iterable[str]) -> dict[str, Any]:
    """Result of one pushed event.

    :param online: users that are subscribed, once per subscription.
    """
    there = list(online)
    if not user_ids:
        return {"fanoutCount": -1 if there else 0, "userOnlineStatus": {}}
    status = {user: user in there for user in user_ids}
    reached = sum(status.values())
    return {"fanoutCount": reached, "userOnlineStatus": status}


def _are_ids(user_ids: Any) -> bool:
    return isinstance(user_ids, list) and all(
        isinstance(one, str) and salesforce_ids.is_id(one) for one in user_ids
    )
