"""Open Subscribe streams, so that a test can end them all."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.emulator.errors import RefusalError


class EndableStream(Protocol):
    """A stream that can be ended from outside. Both methods may be called from any thread."""

    def end(self, refusal: RefusalError) -> None:
        """End soon with this status, which may be OK."""

    def outlive_session(self) -> None:
        """Stay open even if the token expires."""


class OpenEventStreams:
    """Registry of open streams. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._streams: set[EndableStream] = set()

    @contextmanager
    def holding(self, stream: EndableStream) -> Iterator[None]:
        with self._lock:
            self._streams.add(stream)
        try:
            yield
        finally:
            with self._lock:
                self._streams.discard(stream)

    def end(self, refusal: RefusalError) -> None:
        for stream in self._all():
            stream.end(refusal)

    def outlive_sessions(self) -> None:
        for stream in self._all():
            stream.outlive_session()

    def _all(self) -> tuple[EndableStream, ...]:
        with self._lock:
            return tuple(self._streams)
