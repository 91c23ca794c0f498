"""Access control of the admin API: a token, and no requests that a web page can send. Pure.

The admin API returns the secrets of its orgs and changes their buses. It listens on loopback, where
every open web page of a developer can send requests.

Rule 1. A request carries the token of this emulator, `Authorization: Bearer …`. The token is in the
state file, which only its user can read.

Rule 2. The `Host` is this emulator's: its own name, `localhost`, or an IP address. A page whose
host name was rebound to this address names its own host.

Rule 3. An `Origin`, which browsers add, is the emulator's own.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH = "/emulator/"
_ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with


def own_names(host: str) -> frozenset[str]:
    """Host names that clients of an emulator may use, beside IP addresses.

    :param host: address that the emulator listens on.
    """
    names = {"localhost", host}
    if host == _ANY_ADDRESS:
        names.add(socket.gethostname())
    return frozenset(name.casefold() for name in names)


def refusal(
    headers: Mapping[str, str], token: str, names: frozenset[str]
) -> tuple[int, str] | None:
    """HTTP status and reason of a refusal; None if the request is accepted.

    :param headers: values by lower-case name.
    """
    host = headers.get("host", "")
    if not _is_own(_name(host), names):
        return 403, (
            f"the request is for host {host!r}, and this emulator has another name; use its IP "
            "address, or start it with --host and that name"
        )
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc.casefold() != host.casefold():
        return 403, f"a web page of {origin} may not ask the emulator"
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.casefold() != "bearer" or not _is_same(given.strip(), token):
        return 401, (
            "the admin API requires its token, which is in the emulator's state file: name "
            "that file by --folder or --state, or set SFEVENTS_EMULATOR_TOKEN"
        )
    return None


def guarded(app: Any, token: str, names: frozenset[str]) -> Any:
    """Application with a guarded admin API; Salesforce's APIs have logins of their own."""

    async def answering(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].startswith(PATH):
            refused = refusal(Headers(scope=scope), token, names)
            if refused:
                status, why = refused
                await JSONResponse({"error": why}, status_code=status)(scope, receive, send)
                return
        await app(scope, receive, send)

    return answering


def _name(host: str) -> str:
    """Host name of a `Host` header, without its port; empty if invalid."""
    try:
        return (urlsplit(f"//{host}").hostname or "").casefold()
    except ValueError:
        return ""


def _is_own(name: str, names: frozenset[str]) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in names
    return True


def _is_same(given: str, token: str) -> bool:
    return hmac.compare_digest(given.encode(), token.encode())
