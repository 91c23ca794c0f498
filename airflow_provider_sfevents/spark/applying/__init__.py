"""Applying change events to the records they changed, with Spark: `apply_batch` and `resolve`. The rules are `spark.changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.applying.batch import apply_batch
    from airflow_provider_sfevents.spark.applying.ordering import ApplyOrder
    from airflow_provider_sfevents.spark.applying.resolving import resolve

__all__ = ["ApplyOrder", "apply_batch", "resolve"]


def __getattr__(name: str) -> Any:
    """Load what is asked for only then."""
    if name == "apply_batch":
        from airflow_provider_sfevents.spark.applying import batch

        return batch.apply_batch
    if name == "ApplyOrder":
        from airflow_provider_sfevents.spark.applying import ordering

        return ordering.ApplyOrder
    if name == "resolve":
        from airflow_provider_sfevents.spark.applying import resolving

        return resolving.resolve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
