"""An emulator under load in its own process, so that its cost is apart from its clients' cost."""

from __future__ import annotations

import os
import resource
import threading
import time
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from multiprocessing.managers import BaseManager
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator import Emulator, Knobs

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELDS = {"Sent_At__c": "Number", "Text__c": "Text"}
TEXT = "x" * 200
"""Makes an event as large as one with a dozen fields."""
_BATCH = 200


class Loaded:
    """Orders for that process.

    :param folder: folder of its events; empty: in memory.
    """

    def __init__(self, folder: str = "") -> None:
        threading.Thread(target=_end_with_parent, daemon=True).start()
        knobs = Knobs(keepalive_seconds=120, delivery_allocation=None, publish_allocation=None)
        began = time.perf_counter()
        self._emulator = Emulator(folder=folder or None, knobs=knobs).start()
        self._started = time.perf_counter() - began

    def define(self, count: int) -> list[str]:
        """So many topics, where they are not there yet."""
        names = [f"Load_{number}__e" for number in range(count)]
        known = {topic.name for topic in self._emulator.org.bus.topics}
        return [
            topic
            if (topic := f"/event/{name}") in known
            else self._emulator.define_event(name, FIELDS)
            for name in names
        ]

    def started(self) -> float:
        """Seconds that it took to start."""
        return self._started

    def where(self) -> tuple[str, dict[str, str]]:
        """Endpoint, and the headers of a client that has logged in."""
        connection = self._emulator.connection("session")
        headers = {
            "accesstoken": connection["extra"]["session_token"],
            "instanceurl": self._emulator.my_domain_url,
            "tenantid": self._emulator.org.org_id,
        }
        return self._emulator.endpoint, headers

    def publish(self, topic: str, count: int) -> None:
        """So many events at once, that say when."""
        events = [{"Sent_At__c": time.time(), "Text__c": TEXT}] * count
        self._emulator.publish(topic, events)

    def fill(self, topic: str, count: int) -> float:
        """So many events, in batches as a publisher has them; seconds it took."""
        began = time.perf_counter()
        for at in range(0, count, _BATCH):
            self.publish(topic, min(_BATCH, count - at))
        return time.perf_counter() - began

    def publish_paced(self, topics: list[str], bursts: int, events: int, every: float) -> None:
        """Publish bursts of events on each topic at a fixed interval; return after the last one."""
        began = time.perf_counter()
        for number in range(bursts):
            time.sleep(max(0.0, began + number * every - time.perf_counter()))
            for topic in topics:
                self.publish(topic, events)

    def open_streams(self) -> int:
        return self._emulator.open_streams

    def cpu(self) -> float:
        """Seconds used so far."""
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    def memory(self) -> int:
        """Bytes that are its own now."""
        import psutil  # type: ignore[import-untyped]

        return int(psutil.Process().memory_full_info().uss)

    def stop(self) -> None:
        self._emulator.check()
        self._emulator.stop()


def _end_with_parent() -> None:
    """However the benchmark ends, this process is not left behind."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class _Manager(BaseManager):
    if TYPE_CHECKING:

        def Loaded(self, folder: str = "") -> Loaded: ...  # noqa: N802 - as registered


_Manager.register("Loaded", Loaded)


@contextmanager
def running(folder: str = "") -> Iterator[Loaded]:
    """One for the length of a block."""
    with _Manager(ctx=get_context("spawn")) as manager:
        yield manager.Loaded(folder)
