"""Subscriptions: streams of the Pub/Sub API, deliveries, bounded fetches and shared streams."""

from __future__ import annotations
