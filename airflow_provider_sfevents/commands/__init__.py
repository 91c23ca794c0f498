"""`airflow sfevents`: hands on positions and batches, for a machine with Airflow's configuration and database."""

from __future__ import annotations
