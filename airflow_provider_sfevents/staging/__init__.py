"""The write-ahead log between the bus and Spark: claims, files, manifest, receipt."""

from __future__ import annotations
