"""Event loop of asynchronous tests that call gRPC."""

from __future__ import annotations

import asyncio
from typing import Any

from typing_extensions import override


class QuietLoop(asyncio.SelectorEventLoop):
    """A loop that is not disturbed by gRPC's events of a loop that was closed before.

    grpc.aio has one completion queue for all loops of a process, and reports such an event here as
    an error of a callback, with which anyio would fail the test that runs just then.
    """

    @override
    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if "PollerCompletionQueue" not in str(context.get("message")):
            super().call_exception_handler(context)


BACKEND = ("asyncio", {"loop_factory": QuietLoop})
"""For anyio's fixture `anyio_backend`."""
