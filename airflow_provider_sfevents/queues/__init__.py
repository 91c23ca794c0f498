"""Topics as message queues, for `MessageQueueTrigger`."""

from __future__ import annotations
