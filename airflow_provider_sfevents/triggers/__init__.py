"""The triggers: waits without a worker slot, and watchers that start DAG runs."""

from __future__ import annotations
