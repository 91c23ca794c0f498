"""`airflow sfevents`: show and change positions and batches, in Airflow's database."""

from __future__ import annotations
