"""What comes from outside over HTTP: bodies of bearable size, JSON that every part of the emulator can hold."""

from __future__ import annotations

import json
import math
from typing import Any

from starlette.exceptions import HTTPException

MOST_BYTES = 64 * 1024 * 1024
"""Of a body. Ours: more than any request of Salesforce's APIs that is served here may have."""


def json_of(body: bytes) -> Any:
    """JSON of a body.

    :raises ValueError: when it is none. What Python takes beyond the standard is refused: NaN, infinity, halves of characters.
    """
    try:
        found = json.loads(body, parse_constant=_refuse, parse_float=_number)
        if b"\\u" in body or not body.isascii():
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    return found


def bounded(app: Any) -> Any:
    """Application that refuses bodies which are too long with HTTP 413, and does not gather them first."""

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
    raise ValueError(f"{name} is no JSON")


def _number(text: str) -> float:
    found = float(text)
    if math.isinf(found):
        raise ValueError(f"the number {text} is too large")
    return found
