"""Client of the Pub/Sub API and of the org's REST API, without Airflow."""

from __future__ import annotations
