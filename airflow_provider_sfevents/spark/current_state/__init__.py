"""Apply change events and entity snapshots to current-state tables, with Spark.

The entry points are `apply_batch.land_and_apply` and `snapshot.apply_snapshot`; `spark.changes` has
the rules.
"""
