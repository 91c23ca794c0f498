"""One batch from position to commit: what a restart finds, does, and leaves."""

from __future__ import annotations
