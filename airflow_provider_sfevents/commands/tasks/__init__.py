"""Task instances of positions, in Airflow's database."""

from __future__ import annotations
