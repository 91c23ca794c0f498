"""The sensor: a task of a DAG that waits for pending events."""

from __future__ import annotations
