"""Ordered faults of the Streaming API that leave the request alone and disturb its answer.

1. `reset`: the connection closes in the middle of the answer.
2. `hold`: the whole answer is held back, as by a proxy that buffers. Its events count as delivered,
   also when the client has given up meanwhile.
3. `cookies`: the answer takes the cookie away that leads to the session's server.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from airflow_provider_sfevents.emulator.faults.fault_orders import FaultOrder

HOLD_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class BrokenAnswer:
    """ASGI application: an answer that ends before its content length."""

    whole: Response

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        status, headers = self.whole.status_code, self.whole.raw_headers
        await send({"type": "http.response.start", "status": status, "headers": headers})
        half = self.whole.body[: len(self.whole.body) // 2]
        await send({"type": "http.response.body", "body": half, "more_body": True})


async def disturbed(answer: Response, fault: FaultOrder, cookie: str) -> Response | BrokenAnswer:
    """Return the answer as the fault leaves it; it is held back here.

    :param cookie: name of the cookie that `cookies` takes away.
    """
    match fault.how:
        case "reset":
            return BrokenAnswer(answer)
        case "hold":
            await asyncio.sleep(fault.after_seconds or HOLD_SECONDS)
        case "cookies":
            answer.delete_cookie(cookie)
    return answer
