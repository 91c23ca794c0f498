"""What stands in a DAG: fetch, land, commit."""

from __future__ import annotations
