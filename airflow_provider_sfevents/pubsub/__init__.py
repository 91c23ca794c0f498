"""The Pub/Sub API client: logins, channel, errors, credit, subscription, publishing. No Airflow."""

from __future__ import annotations
