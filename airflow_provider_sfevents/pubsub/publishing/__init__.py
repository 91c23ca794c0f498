"""Publishing platform events: records to events, a queue of requests, and the streams that carry them."""

from __future__ import annotations
