"""Answers of the admin API: JSON in, JSON out, mistakes as HTTP 400."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse, Response

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.http.request_bodies import json_of

if TYPE_CHECKING:
    from starlette.requests import Request

Facts = Mapping[str, Any]


def answering(answer: Callable[[Facts], Any]) -> Callable[[Request], Awaitable[Response]]:
    """Make a handler that passes the query or JSON body to a function and returns JSON.

    A mistake becomes HTTP 400. The function runs in a thread, because verbs about the network wait
    for the event loop.
    """

    async def handle(request: Request) -> Response:
        try:
            asked = await _asked(request)
            return JSONResponse(await asyncio.to_thread(answer, asked))
        except KeyError as error:
            return JSONResponse({"error": f"{error} is missing"}, status_code=400)
        except (EmulatorError, ValueError, TypeError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)

    return handle


async def _asked(request: Request) -> Facts:
    if request.method == "GET":
        return dict(request.query_params)
    found = json_of(await request.body())
    if not isinstance(found, dict):
        raise TypeError("the body is not a JSON object")
    return found
