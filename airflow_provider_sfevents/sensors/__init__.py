"""What stands in a DAG to wait: for events that are pending."""

from __future__ import annotations
