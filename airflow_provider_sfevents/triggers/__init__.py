"""What runs in the triggerer: waits without a worker, and watches that schedule DAGs."""

from __future__ import annotations
