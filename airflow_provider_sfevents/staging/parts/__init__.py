"""Staged files of a batch: written, read, verified and chained."""

from __future__ import annotations
