"""Named steps at which a process can be killed; no event may be lost between any two of them.

Each is an event of Python's own auditing (`sys.audit`), which costs next to nothing without a hook.
To stop a process at a step, install a hook with `sys.addaudithook`, as the proof does
(docs/proof.md).

The steps are in the order of a batch's life. Spark's driver adds its own between `spark-next` and
`spark-ended`, named by `spark.landing.landing_steps`.
"""

from __future__ import annotations

import sys

EVENT = "airflow_provider_sfevents.step"
"""The audit event; its arguments are the step's name and its subject."""

AUTHENTICATED = "authenticated"  # there is a session only
POSITION_BEGUN = "position-begun"  # the store has the first position; the staging area not yet
ORIGIN_WRITTEN = "origin-written"  # the staging area has it, too
CLAIMED = "claimed"
DELIVERED = "delivered"  # a delivery is in memory only
PART_CLOSED = "part-closed"
SCHEMA_KEPT = "schema-kept"
MANIFEST_NEXT = "manifest-next"
MANIFEST_WRITTEN = "manifest-written"
CARRY_OVER_NEXT = (
    "carry-over-next"  # a manifest is there; events beyond the batch are in memory only
)
CARRY_OVER_CLAIMED = "carry-over-claimed"  # the next batch's lease is taken, to stage them
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
ANCHOR_WRITTEN = "anchor-written"  # a wait has written the keepalive point
MANAGED_COMMIT_NEXT = "managed-commit-next"  # staged; the next request is Salesforce's commit
MANAGED_COMMITTED = "managed-committed"  # Salesforce has confirmed it; that is not recorded yet
HEARD = "heard"  # a wait's events are in closed files, its lease is released; not reported yet
ANNOUNCED = "announced"  # a watcher has started a run, and recorded that

EVENTS_SENT = "events-sent"  # a request is with gRPC; the bus may have its events
EVENTS_ANSWERED = "events-answered"  # the bus's answer on events is in memory only
LEDGER_NEXT = "ledger-next"  # lines are about to be written
LEDGER_WRITTEN = "ledger-written"

WORKER_STEPS = (
    AUTHENTICATED,
    POSITION_BEGUN,
    ORIGIN_WRITTEN,
    CLAIMED,
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

CARRY_OVER_STEPS = (CARRY_OVER_NEXT, CARRY_OVER_CLAIMED)
"""Steps of a batch with events beyond its bound; after `MANIFEST_WRITTEN`."""

MANAGED_STEPS = (MANAGED_COMMIT_NEXT, MANAGED_COMMITTED)
"""Steps of a batch from a managed subscription; between `MANIFEST_WRITTEN` and `SPARK_NEXT`."""

WAIT_STEPS = (ANCHOR_WRITTEN, HEARD, ANNOUNCED)
"""Steps of waits alone; a wait reaches some of the others, too."""

PUBLISH_STEPS = (EVENTS_SENT, EVENTS_ANSWERED, LEDGER_NEXT, LEDGER_WRITTEN)
"""Steps of a task that publishes."""


def reached(name: str, about: str = "") -> None:
    """Report that a step has been reached.

    :param about: its subject: a file, a batch, a topic.
    """
    sys.audit(EVENT, name, about)
