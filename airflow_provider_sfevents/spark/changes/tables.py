"""The tables that the state of an apply lives in: their columns, and the order in which a run writes them.

Names are lower case with an underscore inside, which no Salesforce field is (`envelope.py`). An order is three columns, which compare as the
tuple does. `docs/reference/tables.md` says what each is for.
"""

from __future__ import annotations

RECORD_ID = "record_id"
ORDER = ("applied_generation", "applied_sequence", "applied_ordinal")
COMMITTED_AT = "committed_at"
READ_AT = "read_at"
IS_DELETED = "is_deleted"

ROW_SQL = (
    f"{RECORD_ID} string, {IS_DELETED} boolean, {ORDER[0]} bigint, {ORDER[1]} bigint, {ORDER[2]} bigint, "
    f"{COMMITTED_AT} timestamp, {READ_AT} timestamp"
)
"""Of a current-state table, one for each entity, before the columns of its fields; key `record_id`. `is_deleted` is true only where
deletions flag."""

TOMBSTONES_SQL = (
    f"entity_name string, {RECORD_ID} string, {ORDER[0]} bigint, {ORDER[1]} bigint, {ORDER[2]} bigint, "
    f"{COMMITTED_AT} timestamp, {READ_AT} timestamp"
)
"""Of deleted records where deletions delete; key `entity_name`, `record_id`. One stays when its record comes back: of row and tombstone the later
order counts, and the row where both have the same."""

RESYNC_SQL = (
    f"entity_name string, {RECORD_ID} string, since_generation bigint, since_sequence bigint, since_ordinal bigint, "
    "last_generation bigint, last_sequence bigint, last_ordinal bigint, gap_at timestamp, mark_reasons array<string>, mark_detail string"
)
"""Marks; key `entity_name`, `record_id`, which is `marks.WHOLE_ENTITY` for the entity itself."""

KEPT_SQL = (
    f"entity_name string, {RECORD_ID} string, event_generation bigint, event_sequence bigint, event_ordinal bigint, "
    f"{COMMITTED_AT} timestamp, event_text string"
)
"""Events that wait for their record or entity to be resolved; key all but the last two. `event_text` is `serial.to_text`."""

HELD_SQL = (
    "event_generation bigint, event_sequence bigint, event_ordinal bigint, entity_name string, change_type string, "
    "record_ids array<string>, transaction_key string, sequence_number int, committed_at timestamp, event_identity string, "
    "named_ids array<string>, is_wide boolean, event_text string"
)
"""The transaction that waits for its rest; key the first three. Each run adds what it holds, and removes what it releases."""

SEEN_SQL = "event_identity string, event_generation bigint, event_sequence bigint, event_ordinal bigint, seen_at timestamp"
"""Identities of applied and kept events; key `event_identity`. An identity that is there keeps its order."""

ENTITIES_SQL = f"entity_name string, {READ_AT} timestamp"
"""Every entity that the source has told of, and when it was last read in full; key `entity_name`."""

UNAPPLIED_SQL = (
    "entity_name string, event_generation bigint, event_sequence bigint, event_ordinal bigint, "
    "quarantine_reason string, event_text string"
)
"""Events that count for nothing; key all but the last two."""

APPLIED_THROUGH, WRITER = "applied_through", "writer_token"
PROGRESS_SQL = f"{APPLIED_THROUGH} string, {WRITER} string"
"""One row: `source.Progress`, as `progress_text.to_text` writes it (null before the first batch), and the
token of the run that may write."""

APPLY_ORDER = (
    "kept",
    "resync",
    "entities",
    "seen",
    "unapplied",
    "history",
    "tombstones",
    "rows",
    "held",
    "applied_through",
)
"""A run that applies a batch writes so: whoever dies in between has marked and kept before a row moved on, and `held` is replaced when what
it held is in the rows."""

RESOLVE_ORDER = ("history", "tombstones", "rows", "entities", "resync", "kept")
"""A run that resolves writes so: a mark goes when the rows are right, and what was kept goes when it is no longer needed."""
