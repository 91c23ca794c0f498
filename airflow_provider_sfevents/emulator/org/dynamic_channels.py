"""Generic channels that a subscription creates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError
from airflow_provider_sfevents.emulator.org.record_transaction import Transaction
from airflow_provider_sfevents.emulator.org.records.change_encoding import TransactionStamp
from airflow_provider_sfevents.emulator.org.streaming.generic_channels import STREAMING_CHANNEL

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.org.database import Database

Opened = Literal["made", "unknown", "case", "full", "refused"]


def open_channel(database: Database, name: str, user_id: str) -> Opened:
    """Create a generic channel that does not exist, if the org allows it.

    :param user_id: user of the subscription.
    :returns: `made`; or why it was not: `unknown`: dynamic channels are off; `case`: the name of a
        channel differs only in case; `full`: the org has enough channels; `refused`: the name is
        invalid.
    """
    with database.lock:
        kept = [one for one in database.records(STREAMING_CHANNEL) if one.deleted_at is None]
        if name.lower() in {str(one.get("Name")).lower() for one in kept}:
            return "case"
        if not database.bus.knobs.dynamic_channels:
            return "unknown"
        most = database.bus.knobs.generic_channels
        if most is not None and len(kept) >= most:
            return "full"
        changes = Transaction(database, user_id=user_id)
        try:
            changes.create(STREAMING_CHANNEL, {"Name": name, "IsDynamic": True})
            changes.commit(TransactionStamp(origin=""))
        except RecordRefusedError:
            return "refused"
        return "made"
