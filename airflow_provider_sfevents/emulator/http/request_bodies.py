"""HTTP request bodies: a size limit, and JSON that every part of the emulator can store."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.exceptions import HTTPException

MOST_BYTES = 64 * 1024 * 1024
"""Largest body. The limit is the emulator's own and exceeds any request of the imitated APIs."""


def json_of(body: bytes) -> Any:
    """Parse a JSON body.

    :raises ValueError: invalid JSON, including Python's extensions: NaN, infinity, lone surrogates.
    """
    try:
        found = json.loads(body, parse_constant=_refuse, parse_float=_number)
        if b"\\u" in body or not body.isascii():
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return found


def bounded(app: Any) -> Any:
    """Application that refuses bodies over the limit with HTTP 413, before reading all of them."""

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        came = 0

        async def received() -> Any:
            nonlocal came
            message = await receive()
            came += len(message.get("body", b""))
            if came > MOST_BYTES:
                raise HTTPException(
                    413, f"the body is too long; at most {MOST_BYTES} bytes are taken"
                )
            return message

        await app(scope, received, send)

    return answering


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _number(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise ValueError(f"the number {text} is too large")
    return found
