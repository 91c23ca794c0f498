"""Named steps at which a process can be killed; no event may be lost between any two of them.

Each is an event of Python's own auditing (`sys.audit`), which costs next to nothing without a hook.
To stop a process at a step, install a hook with `sys.addaudithook`, as the proof does
(docs/explanation/proof.md).

The steps are in the order of a batch's life; those of Spark's driver are between `spark-next` and
`spark-ended`.
"""

from __future__ import annotations

import sys

EVENT = "airflow_provider_sfevents.step"
"""The audit event; its arguments are the step's name and its subject."""

AUTHENTICATED = "authenticated"  # there is a session only
POSITION_BEGUN = "position-begun"  # the store has the first position; the staging area not yet
ORIGIN_WRITTEN = "origin-written"  # the staging area has it, too
LEASED = "leased"
DELIVERED = "delivered"  # a delivery is in memory only
PART_CLOSED = "part-closed"
SCHEMA_KEPT = "schema-kept"
MANIFEST_NEXT = "manifest-next"
MANIFEST_WRITTEN = "manifest-written"
CARRY_OVER_NEXT = (
    "carry-over-next"  # a manifest is there; events beyond the batch are in memory only
)
CARRY_OVER_LEASED = "carry-over-leased"  # the next batch's lease is taken, to stage them
SPARK_NEXT = "spark-next"
SPARK_ENDED = "spark-ended"
COMMIT_NEXT = "commit-next"
POSITION_SET = "position-set"  # written, not read back
COMMITTED = "committed"
SWEPT = "swept"
FALLBACK_NEXT = (
    "fallback-next"  # the bus refused the replay id, and the loss window is about to be written
)
FALLBACK_WRITTEN = "fallback-written"
KEEPALIVE_POINT_WRITTEN = "keepalive-point-written"  # a wait has written the keepalive point
MANAGED_COMMIT_NEXT = "managed-commit-next"  # staged; the next request is Salesforce's commit
MANAGED_COMMITTED = "managed-committed"  # Salesforce has confirmed it; that is not recorded yet
WAITED = "waited"  # a wait's events are in closed files, its lease is released; not reported yet
ANNOUNCED = "announced"  # a watcher has started a run, and recorded that

EVENTS_SENT = "events-sent"  # a request is with gRPC; the bus may have its events
EVENTS_ANSWERED = "events-answered"  # the bus's answer on events is in memory only
LEDGER_NEXT = "ledger-next"  # lines are about to be written
LEDGER_WRITTEN = "ledger-written"

WORKER_STEPS = (
    AUTHENTICATED,
    POSITION_BEGUN,
    ORIGIN_WRITTEN,
    LEASED,
    FALLBACK_NEXT,
    FALLBACK_WRITTEN,
    DELIVERED,
    PART_CLOSED,
    SCHEMA_KEPT,
    MANIFEST_NEXT,
    MANIFEST_WRITTEN,
    SPARK_NEXT,
    SPARK_ENDED,
    COMMIT_NEXT,
    POSITION_SET,
    COMMITTED,
    SWEPT,
)

CARRY_OVER_STEPS = (CARRY_OVER_NEXT, CARRY_OVER_LEASED)
"""Steps of a batch with events beyond its bound; after `MANIFEST_WRITTEN`."""

MANAGED_STEPS = (MANAGED_COMMIT_NEXT, MANAGED_COMMITTED)
"""Steps of a batch from a managed subscription; between `MANIFEST_WRITTEN` and `SPARK_NEXT`."""

WAIT_STEPS = (KEEPALIVE_POINT_WRITTEN, WAITED, ANNOUNCED)
"""Steps of waits alone; a wait reaches some of the others, too."""

PUBLISH_STEPS = (EVENTS_SENT, EVENTS_ANSWERED, LEDGER_NEXT, LEDGER_WRITTEN)
"""Steps of a task that publishes."""

LANDING_BEGAN = (
    "landing-began"  # the session is there, nothing was read; the subject is the manifest
)
LANDING_FOLDER = "landing-folder"  # the attempt's folder is made next
LANDING_WRITE = "landing-write"  # all tables are written next; again after duplicates
LANDING_COMPARE = "landing-compare"  # the written rows are compared next with those of the tables
LANDING_CLEAR = "landing-clear"  # the subject is the folder of an attempt at an older form
# The subject is the file's new path below the root, or the table of Delta or Iceberg that the next
# commit is made to.
LANDING_MOVE = "landing-move"
LANDING_REMOVE = "landing-remove"  # rows of an earlier landing of the batch; the subject as before
LANDING_LANDED = "landing-landed"  # the row of the ledger is written next
LANDING_CLEAN = "landing-clean"
RECEIPT_NEXT = "receipt-next"
RECEIPT_WRITTEN = "receipt-written"

LANDING_STEPS = (
    LANDING_BEGAN,
    LANDING_FOLDER,
    LANDING_WRITE,
    LANDING_COMPARE,
    LANDING_CLEAR,
    LANDING_MOVE,
    LANDING_REMOVE,
    LANDING_LANDED,
    LANDING_CLEAN,
    RECEIPT_NEXT,
    RECEIPT_WRITTEN,
)
"""Steps of a landing in Spark; those in the middle may be reached several times."""

# The subject is a name of `changes.tables.APPLY_ORDER`, and the table's own if it is another one.
APPLY_COMMIT = "apply-commit"
APPLY_COMMITTED = "apply-committed"

UPKEEP_TOMBSTONES = "upkeep-tombstones"  # the subject is the root of the current-state tables
UPKEEP_COMPACT = "upkeep-compact"  # the subject is the table, as of those that follow
UPKEEP_DELETES = "upkeep-deletes"  # position deletes of Iceberg are rewritten next
UPKEEP_MANIFESTS = "upkeep-manifests"  # of Iceberg
UPKEEP_EXPIRE = "upkeep-expire"
UPKEEP_REMOVE = "upkeep-remove"
UPKEEP_DONE = "upkeep-done"

DELTA_UPKEEP_STEPS = (UPKEEP_COMPACT, UPKEEP_REMOVE, UPKEEP_DONE)
ICEBERG_UPKEEP_STEPS = (
    UPKEEP_COMPACT,
    UPKEEP_DELETES,
    UPKEEP_MANIFESTS,
    UPKEEP_EXPIRE,
    UPKEEP_REMOVE,
    UPKEEP_DONE,
)
"""Steps of upkeep of a table, each before a statement; a statement without work has no step."""


def reached(name: str, about: str = "") -> None:
    """Report that a step has been reached.

    :param about: its subject: a file, a batch, a topic.
    """
    sys.audit(EVENT, name, about)
