"""An emulator with many topics in its own process, so that a benchmark measures the clients."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.managers import BaseManager
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import Emulator, Knobs

if TYPE_CHECKING:
    from collections.abc import Iterator


class Topics:
    """Orders for that process.

    :param keepalive_seconds: silence before the service sends a keepalive.
    """

    def __init__(self, keepalive_seconds: float) -> None:
        threading.Thread(target=_end_with_parent, daemon=True).start()
        self._emulator = Emulator(
            knobs=Knobs(keepalive_seconds=keepalive_seconds, delivery_allocation=None)
        ).start()

    def connection(self, auth: str = "client_credentials") -> dict[str, Any]:
        return self._emulator.connection(auth)

    def endpoint(self) -> str:
        return self._emulator.endpoint

    def org_id(self) -> str:
        return self._emulator.org.org_id

    def define(self, count: int) -> dict[str, str]:
        """Define topics; return the replay id of the only event of each."""
        names = [f"Idle_{number}__e" for number in range(count)]
        topics = [self._emulator.define_event(name, {"Number__c": "Number"}) for name in names]
        return {
            topic: self._emulator.publish(topic, [{"Number__c": 1.0}])[0].hex() for topic in topics
        }

    def open_streams(self) -> int:
        return self._emulator.open_streams

    def keepalives(self) -> int:
        """Responses without events so far, of streams that are open."""
        return sum(one.keepalives for one in self._emulator.subscriptions if one.open)

    def streams_by_connection(self) -> list[int]:
        """Only connections that have any."""
        return [count for count in self._emulator.streams_by_connection if count]


def _end_with_parent() -> None:
    """However the benchmark ends, this process is not left behind."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Manager(BaseManager):
    if TYPE_CHECKING:

        def Topics(self, keepalive_seconds: float) -> Topics: ...  # noqa: N802 - as registered


_Manager.register("Topics", Topics)


@contextmanager
def running(keepalive_seconds: float) -> Iterator[Topics]:
    """One for the length of a block."""
    with _Manager(ctx=get_context("spawn")) as manager:
        yield manager.Topics(keepalive_seconds)
