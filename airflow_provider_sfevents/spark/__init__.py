"""Spark code: reading a staged batch, landing it, reading landed tables. No Airflow, no gRPC.

For users' own jobs: `read_batch`, `read_undecodable`, `event_types`, `write_receipt`, `read_table`,
`read_quarantine`, `read_ledger`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.read import (
        event_types,
        read_batch,
        read_ledger,
        read_quarantine,
        read_table,
        read_undecodable,
        write_receipt,
    )

__all__ = [
    "event_types",
    "read_batch",
    "read_ledger",
    "read_quarantine",
    "read_table",
    "read_undecodable",
    "write_receipt",
]


def __getattr__(name: str) -> Any:
    """Load a name at its first use, because this room is also imported without Spark."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from airflow_provider_sfevents.spark import read

    return getattr(read, name)
