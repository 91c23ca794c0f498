"""Staged batches as a source of Spark: `spark.read` and `spark.readStream`, format `sfevents`.

`register(spark)` makes the format known to a session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.source.data_source import SfEventsDataSource, register

__all__ = ["SfEventsDataSource", "register"]


def __getattr__(name: str) -> Any:
    """Load a name at its first use, because only Spark's processes have PySpark."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from airflow_provider_sfevents.spark.source import data_source

    return getattr(data_source, name)
