"""Remedies of what a position has lost or kept aside; the page, alerts and notices share them."""

from __future__ import annotations

QUARANTINE = (
    "The table _quarantine has them, with quarantine_reason. When the reason is mended, land the "
    "batch again."
)


def of_loss_window(topic: str) -> str:
    """Return what to do about events of a topic that may have been missed."""
    if topic.startswith("/data/"):
        return "Read the records again by an entity snapshot (SfEventsEntitySnapshotOperator)."
    return "Publish the events again, or land them from a position further back."
