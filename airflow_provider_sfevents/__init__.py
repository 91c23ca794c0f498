"""Salesforce events into a data lake, with Airflow and Spark. No imports: Spark loads it, too."""

from __future__ import annotations

__version__ = "0.1.0"
