"""Subscriptions: streams of the Pub/Sub API, deliveries, a bounded fetch and shared streams."""

from __future__ import annotations
