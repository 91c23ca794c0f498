"""Tables of current state: their columns, and the order in which a run writes them.

Column names are lower case with an underscore inside, as no Salesforce field's is (`envelope.py`).
The order of an event is three columns, compared as a tuple. `docs/reference/tables.md` explains
each table.
"""

from __future__ import annotations

RECORD_ID = "record_id"
ORDER = ("applied_generation", "applied_batch_number", "applied_ordinal")
ORDER_SQL = ", ".join(f"{name} bigint" for name in ORDER)
EVENT_ORDER = ("event_generation", "event_batch_number", "event_ordinal")
EVENT_ORDER_SQL = ", ".join(f"{name} bigint" for name in EVENT_ORDER)
COMMITTED_AT = "committed_at"
READ_AT = "read_at"
IS_DELETED = "is_deleted"

ROW_SQL = (
    f"{RECORD_ID} string, {IS_DELETED} boolean, {ORDER_SQL}, {COMMITTED_AT} timestamp, "
    f"{READ_AT} timestamp"
)
"""Of a current-state table, one for each entity, before the columns of its fields; key `record_id`.
`is_deleted` is true only where deletions flag."""

RESYNC_SQL = (
    f"entity_name string, {RECORD_ID} string, since_generation bigint, since_batch_number bigint, "
    "since_ordinal bigint, last_generation bigint, last_batch_number bigint, last_ordinal bigint, "
    "cause_at timestamp, resync_reasons array<string>, resync_detail string"
)
"""Resync entries; key `entity_name`, `record_id`, which is `resync_entries.WHOLE_ENTITY` for the
entity itself."""

SET_ASIDE_SQL = (
    f"event_role string, entity_name string, {RECORD_ID} string, {EVENT_ORDER_SQL}, {ORDER_SQL}, "
    f"{COMMITTED_AT} timestamp, {READ_AT} timestamp, quarantine_reason string, change_type string, "
    "record_ids array<string>, transaction_key string, sequence_number int, event_identity string, "
    "named_ids array<string>, is_wide boolean, event_text string"
)
"""Events beside the records, one partition for each role; key `SET_ASIDE_KEY`. Columns that a role
does not use are null; a key's are empty, or 0."""

SET_ASIDE_KEY = ("event_role", "entity_name", RECORD_ID, *EVENT_ORDER)

KEPT = "kept"
KEPT_SQL = (
    f"entity_name string, {RECORD_ID} string, {EVENT_ORDER_SQL}, {COMMITTED_AT} timestamp, "
    "event_text string"
)
"""Role: events that wait for an entity snapshot of their record or entity. `event_text` is
`serial.to_text`."""

OPEN_TRANSACTION = "open_transaction"
OPEN_TRANSACTION_SQL = (
    f"{EVENT_ORDER_SQL}, entity_name string, change_type string, record_ids array<string>, "
    f"transaction_key string, sequence_number int, {COMMITTED_AT} timestamp, "
    "event_identity string, named_ids array<string>, is_wide boolean, event_text string"
)
"""Role: the last transaction of a batch, whose rest may still come. Of these rows, those from
`Progress.open_from` up to the last batch count; a run removes others that it finds."""

UNAPPLIED = "unapplied"
UNAPPLIED_SQL = (
    f"entity_name string, {EVENT_ORDER_SQL}, quarantine_reason string, event_text string"
)
"""Role: events that cannot be applied, each with the reason."""

TOMBSTONES = "tombstones"
TOMBSTONES_SQL = (
    f"entity_name string, {RECORD_ID} string, {ORDER_SQL}, {COMMITTED_AT} timestamp, "
    f"{READ_AT} timestamp"
)
"""Role: deleted records, where `deletions` is `delete`. A tombstone stays when its record comes
back: of row and tombstone the later order counts, and the row where both have the same."""

ROLES = {
    KEPT: KEPT_SQL,
    OPEN_TRANSACTION: OPEN_TRANSACTION_SQL,
    UNAPPLIED: UNAPPLIED_SQL,
    TOMBSTONES: TOMBSTONES_SQL,
}

SEEN_SQL = f"event_identity string, {EVENT_ORDER_SQL}, seen_at timestamp"
"""Identities of applied and kept events; the least order of an identity counts."""

APPLIED_THROUGH, WRITER, ENTITIES = "applied_through", "writer_token", "entities_read"
PROGRESS_SQL = (
    f"{APPLIED_THROUGH} string, {WRITER} string, "
    f"{ENTITIES} array<struct<entity_name:string,{READ_AT}:timestamp>>"
)
"""One row: `source.Progress`, as `progress_text.to_text` writes it (null before the first batch);
the token of the run that may write; and every entity of the source, with the time of its last full
snapshot (null: none)."""

APPLY_ORDER = ("seen", "resync", "history", "set_aside", "rows", "applied_through")
"""Order of the commits of an apply; `seen` may be written at any time before `applied_through`, and
is written while records are folded. A run that dies between two has written resync entries and kept
events before a row changes. History comes before tombstones, because a record with the tombstone of
an event takes that event for old."""

SNAPSHOT_ORDER = ("history", "tombstones", "rows", "entities", "resync", "kept")
"""Order of the commits of an entity snapshot. A resync entry goes when the rows are right, and kept
events go when no entry needs them. `tombstones` and `kept` are commits of `set_aside`."""
