"""Steps of upkeep, by name: the moment before each of its statements, any of which may be the last one before a kill.

Told to the `step` of `job.maintain` with the step's subject; `maintain.py` makes audit events of them (`airflow_provider_sfevents.steps`). A kill
after a statement is a kill at the step that follows.
"""

from __future__ import annotations

TOMBSTONES = "upkeep-tombstones"  # about: the root of the current-state tables
COMPACT = "upkeep-compact"  # about: the table, as of those that follow
DELETES = "upkeep-deletes"  # position deletes of Iceberg are rewritten
MANIFESTS = "upkeep-manifests"  # of Iceberg
EXPIRE = "upkeep-expire"
REMOVE = "upkeep-remove"
DONE = "upkeep-done"

DELTA_STEPS = (COMPACT, REMOVE, DONE)
ICEBERG_STEPS = (COMPACT, DELETES, MANIFESTS, EXPIRE, REMOVE, DONE)
"""Steps of a table that has something to do for each of its statements; a statement without work is left out."""
