"""The operators: tasks of a DAG that fetch, land, commit, publish, resolve and maintain."""

from __future__ import annotations
