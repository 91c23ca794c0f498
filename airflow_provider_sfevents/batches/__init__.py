"""A batch from position to commit: staging, fetching, recovery, reruns and commit."""

from __future__ import annotations
