"""Faults on order: calls, deliveries, and the relay that breaks connections."""
