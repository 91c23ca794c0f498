"""The operators: tasks that fetch, land, commit, publish, apply snapshots and maintain."""

from __future__ import annotations
