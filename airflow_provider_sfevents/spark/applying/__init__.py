"""Applying change events to the records they changed, with Spark: `land_and_apply` and `resolve`. The rules are `spark.changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.applying.job import land_and_apply
    from airflow_provider_sfevents.spark.applying.ordering import ApplyOrder
    from airflow_provider_sfevents.spark.applying.resolving import resolve

__all__ = ["ApplyOrder", "land_and_apply", "resolve"]


def __getattr__(name: str) -> Any:
    """Load what is asked for only then."""
    if name == "land_and_apply":
        from airflow_provider_sfevents.spark.applying import job

        return job.land_and_apply
    if name == "ApplyOrder":
        from airflow_provider_sfevents.spark.applying import ordering

        return ordering.ApplyOrder
    if name == "resolve":
        from airflow_provider_sfevents.spark.applying import resolving

        return resolving.resolve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
