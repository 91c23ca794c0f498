"""Who wants to hear when there may be something new on a bus."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Listeners:
    """Streams and connects that wait. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_topic: dict[str, set[Callable[[], None]]] = {}

    def add(self, listener: Callable[[], None], topic: str) -> Callable[[], None]:
        """Call this when there is something new on a topic, or on any where it is empty; returns what ends it."""
        with self._lock:
            self._by_topic.setdefault(topic, set()).add(listener)

        def end() -> None:
            with self._lock:
                left = self._by_topic.get(topic, set())
                left.discard(listener)
                if not left:
                    self._by_topic.pop(topic, None)

        return end

    def wake(self, topics: Iterable[str] | None = None) -> None:
        """Call who listens to these topics; everybody where none are named."""
        with self._lock:
            named = tuple(self._by_topic) if topics is None else ("", *topics)
            woken = [listener for name in named for listener in self._by_topic.get(name, ())]
        for listener in woken:
            listener()
