"""The write-ahead log between the bus and Spark: leases, staged files, manifests, receipts."""

from __future__ import annotations
