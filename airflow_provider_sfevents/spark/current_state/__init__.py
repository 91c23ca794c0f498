"""Apply change events and entity snapshots to current-state tables, with Spark.

The entry points are `land_and_apply` and `apply_snapshot`; `spark.changes` has the rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.current_state.apply_batch import land_and_apply
    from airflow_provider_sfevents.spark.current_state.current_state_options import ApplyOptions
    from airflow_provider_sfevents.spark.current_state.snapshot.apply_snapshot import apply_snapshot

__all__ = ["ApplyOptions", "apply_snapshot", "land_and_apply"]


def __getattr__(name: str) -> Any:
    """Load an entry point when it is first used."""
    if name == "land_and_apply":
        from airflow_provider_sfevents.spark.current_state import apply_batch

        return apply_batch.land_and_apply
    if name == "ApplyOptions":
        from airflow_provider_sfevents.spark.current_state import current_state_options

        return current_state_options.ApplyOptions
    if name == "apply_snapshot":
        from airflow_provider_sfevents.spark.current_state.snapshot import apply_snapshot

        return apply_snapshot.apply_snapshot
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
