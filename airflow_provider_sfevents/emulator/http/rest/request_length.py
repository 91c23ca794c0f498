"""Limit on the URI and the headers of a REST request.

Rule and statuses: Salesforce Developer Limits and Allocations Quick Reference, "API Request Limits
and Allocations"; help article 000386264. The answers are as in public issues.
"""

from __future__ import annotations

from typing import Any

from starlette.responses import HTMLResponse

MOST_BYTES = 16_384
_REST = "/services/data"


def within_length(app: Any) -> Any:
    """Application that refuses a REST request with a URI, or a URI and headers, over the limit."""

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        refused = _refusal(scope) if scope["path"].startswith(_REST) else None
        await (refused or app)(scope, receive, send)

    return answering


def _refusal(scope: Any) -> HTMLResponse | None:
    uri = len(scope["raw_path"]) + 1 + len(scope["query_string"])
    if uri > MOST_BYTES:
        return _bad(414, "URI Too Long")
    headers = sum(len(name) + len(value) + len(b": \r\n") for name, value in scope["headers"])
    return _bad(431, "Request Header Fields Too Large") if uri + headers > MOST_BYTES else None


def _bad(status: int, reason: str) -> HTMLResponse:
    page = f"<h1>Bad Message {status}</h1><pre>reason: {reason}</pre>"
    return HTMLResponse(page, status, {"Connection": "close"})
