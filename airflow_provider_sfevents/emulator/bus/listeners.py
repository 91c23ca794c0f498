"""Listeners of a bus, by topic."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Listeners:
    """Callbacks of waiting streams and connects. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_topic: dict[str, set[Callable[[], None]]] = {}

    def add(self, listener: Callable[[], None], topic: str) -> Callable[[], None]:
        """Add a listener for a topic, for all if empty; return the unsubscribe call."""
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
        """Call the listeners of these topics; all listeners if no topics are given."""
        with self._lock:
            named = tuple(self._by_topic) if topics is None else ("", *topics)
            woken = [listener for name in named for listener in self._by_topic.get(name, ())]
        for listener in woken:
            listener()
