"""Envelope columns, beside an event's own in every table: identity, time, and origin in a batch.

Every name is lower case with an underscore inside. No field of Salesforce has such a name: standard
fields have no underscore, all others end in `__c` or another double underscore with a letter or
two.
"""

from __future__ import annotations

EVENT_ID = "event_id"  # string; empty if the service sent none
# timestamp: CreatedDate, or a change event's commitTimestamp; null if it has neither
EVENT_TIME = "event_time"
RECEIVED_AT = "received_at"  # timestamp
REPLAY_ID = "replay_id"  # string, lower-case hex
SCHEMA_ID = "schema_id"  # string
ORG_ID = "org_id"  # string, 18 characters
TOPIC = "event_topic"  # string
BATCH_ID = "batch_id"  # string
BATCH_NUMBER = "batch_number"  # bigint
ORDINAL = "batch_ordinal"  # bigint, from 0 within the batch
# date, UTC, of event_time, or of received_at if that is null; the partition column
EVENT_DATE = "event_date"

RAW_PAYLOAD = "raw_payload"  # binary; on request, and in quarantine
REASON = "quarantine_reason"  # string; in quarantine only
EVENT_TYPE = "event_type"  # string; in quarantine only, as its table has events of many types

# int; the split of the batch (`splits`) that has the event. It names the landed file, and is in no
# table.
SPLIT = "staged_split"
# string; the table of a file in an attempt's folder. It is in no table.
TABLE = "event_table"
# boolean; in the source of a MERGE only: the row is deleted. It is in no table.
GONE = "sfevents_gone"

TYPES = {
    EVENT_ID: "string",
    EVENT_TIME: "timestamp",
    RECEIVED_AT: "timestamp",
    REPLAY_ID: "string",
    SCHEMA_ID: "string",
    ORG_ID: "string",
    TOPIC: "string",
    BATCH_ID: "string",
    BATCH_NUMBER: "bigint",
    ORDINAL: "bigint",
}
ENVELOPE = tuple(TYPES)
ENVELOPE_SQL = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
RESERVED = frozenset({*ENVELOPE, EVENT_DATE, RAW_PAYLOAD, REASON, EVENT_TYPE, SPLIT, TABLE, GONE})


def column_name(field: str) -> str:
    """Name a field's column: its own name, with `_` behind it if an envelope column has it."""
    return f"{field}_" if field.casefold() in RESERVED else field
