"""What waits in a DAG until events are pending."""

from __future__ import annotations
