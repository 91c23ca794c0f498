"""Publishing of platform events: encoder, send queue, and the calls that carry events."""

from __future__ import annotations
