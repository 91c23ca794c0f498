"""An org by REST: full records (by the Bulk API too), the topics and channels it offers, and what it may still do today."""

from __future__ import annotations
