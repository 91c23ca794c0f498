"""The columns that stand beside an event's own, in every table: which event it is, when it happened, how it came here.

Every name is lower case with an underscore inside. No field of Salesforce is spelled so: standard fields have no underscore, all
others end in `__c` or another double underscore with a letter or two.
"""

from __future__ import annotations

EVENT_ID = "event_id"  # string; empty where the service sent none
EVENT_TIME = "event_time"  # timestamp: CreatedDate, or a change event's commitTimestamp; null where it has none
RECEIVED_AT = "received_at"  # timestamp
REPLAY_ID = "replay_id"  # string, lower-case hex
SCHEMA_ID = "schema_id"  # string
ORG_ID = "org_id"  # string, 18 characters
TOPIC = "event_topic"  # string
BATCH_ID = "batch_id"  # string
SEQUENCE = "batch_sequence"  # bigint
ORDINAL = "batch_ordinal"  # bigint, from 0 within the batch
EVENT_DATE = "event_date"  # date, UTC: of event_time, or of received_at where that is null; the partition column

RAW_PAYLOAD = "raw_payload"  # binary; on request, and in quarantine
REASON = "quarantine_reason"  # string; in quarantine only
EVENT_TYPE = "event_type"  # string; in quarantine only, where a table holds many

SPLIT = "staged_split"  # int; which of a batch's splits (`splits`) an event is of. Names the landed file, never lands
GONE = (
    "sfevents_gone"  # boolean; in the source of a MERGE only: the row is to be deleted. Never lands
)

ENVELOPE = (
    EVENT_ID,
    EVENT_TIME,
    RECEIVED_AT,
    REPLAY_ID,
    SCHEMA_ID,
    ORG_ID,
    TOPIC,
    BATCH_ID,
    SEQUENCE,
    ORDINAL,
)
RESERVED = frozenset({*ENVELOPE, EVENT_DATE, RAW_PAYLOAD, REASON, EVENT_TYPE, SPLIT, GONE})


def column_name(field: str) -> str:
    """Name a field's column: its own name, unless that is one of ours (no Salesforce name is)."""
    return f"{field}_" if field.casefold() in RESERVED else field
