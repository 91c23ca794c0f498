"""The hook: an Airflow connection, made into a client of Salesforce."""

from __future__ import annotations
