"""What Airflow loads to reach Salesforce: the connection made into a client."""

from __future__ import annotations
