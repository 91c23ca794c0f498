"""What waits in the triggerer until events are pending."""

from __future__ import annotations
