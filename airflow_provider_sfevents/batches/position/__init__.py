"""The position as a batch needs it: opened, checked, pinned, and written before its commit."""

from __future__ import annotations
