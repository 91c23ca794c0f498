"""The moments between which nothing may be lost: where a process can be killed, by name.

Each is an event of Python's own auditing (`sys.audit`), which costs next to nothing while nobody listens. Whoever wants to stop a
process exactly there installs `sys.addaudithook`; our proof by failure does (docs/proof.md).

In the order of a batch's life. Spark's driver adds its own between `spark-next` and `spark-ended`, named by `spark.landing_steps`.
"""

from __future__ import annotations

import sys

EVENT = "airflow_provider_sfevents.step"
"""The audit event; its arguments are the step's name and what it is about."""

AUTHENTICATED = "authenticated"  # a session is there, nothing else
POSITION_BEGUN = "position-begun"  # the store has the first position; the staging area not yet
ORIGIN_WRITTEN = "origin-written"  # and there as well
CLAIMED = "claimed"
DELIVERED = "delivered"  # a delivery is in memory only
PART_CLOSED = "part-closed"
SCHEMA_KEPT = "schema-kept"
MANIFEST_NEXT = "manifest-next"
MANIFEST_WRITTEN = "manifest-written"
CARRY_OVER_NEXT = (
    "carry-over-next"  # a manifest is there; events beyond the batch are in memory only
)
CARRY_OVER_CLAIMED = "carry-over-claimed"  # the next batch is claimed, to begin with them
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
ANCHOR_WRITTEN = "anchor-written"  # by a wait: where a keepalive was is kept
MANAGED_COMMIT_NEXT = (
    "managed-commit-next"  # staged, and Salesforce, who keeps the place, is about to be told
)
MANAGED_COMMITTED = "managed-committed"  # it has said that it keeps it; nobody has noted that down
HEARD = (
    "heard"  # what a wait has heard is in closed files and the batch let go; nobody has been told
)
ANNOUNCED = "announced"  # a watcher has started a run, and noted that down

EVENTS_SENT = "events-sent"  # a request is with gRPC; the bus may have its events
EVENTS_ANSWERED = "events-answered"  # what the bus says of events is in memory only
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
"""Those of a batch beyond which events were delivered alone; after `MANIFEST_WRITTEN`."""

MANAGED_STEPS = (MANAGED_COMMIT_NEXT, MANAGED_COMMITTED)
"""Those of a batch from a managed subscription alone; between `MANIFEST_WRITTEN` and `SPARK_NEXT`."""

WAIT_STEPS = (ANCHOR_WRITTEN, HEARD, ANNOUNCED)
"""Those that only waits reach; a wait reaches some of the others too."""

PUBLISH_STEPS = (EVENTS_SENT, EVENTS_ANSWERED, LEDGER_NEXT, LEDGER_WRITTEN)
"""Those of a task that publishes."""


def reached(name: str, about: str = "") -> None:
    """Say that a step has been reached; `about` is a file, a batch, a topic."""
    sys.audit(EVENT, name, about)
