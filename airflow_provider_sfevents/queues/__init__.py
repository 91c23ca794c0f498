"""Topics as message queues, for Airflow's `MessageQueueTrigger`."""

from __future__ import annotations
