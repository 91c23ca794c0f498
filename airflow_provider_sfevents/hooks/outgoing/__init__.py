"""Metrics and notifications that tasks and triggers send out."""

from __future__ import annotations
