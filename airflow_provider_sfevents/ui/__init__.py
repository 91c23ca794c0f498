"""The page *Salesforce events* in Airflow's menu."""

from __future__ import annotations
