"""Errors of the REST API: the thing, Salesforce's words and the remedy in one line.

Codes and texts: REST API Developer Guide, "Status Codes and Error Responses"; Bulk API 2.0
Developer Guide, "Errors"; help article 000389067 for the limit on requests at once.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth import org_http

if TYPE_CHECKING:
    from airflow_provider_sfevents.exceptions import SfEventsError

SESSION_REFUSED = "INVALID_SESSION_ID"

PASSING = frozenset(
    {"SERVER_UNAVAILABLE", "UNABLE_TO_LOCK_ROW", "QUERY_TIMEOUT", "UNKNOWN_EXCEPTION"}
)
REMEDIES = {
    "API_DISABLED_FOR_ORG": (
        "This edition has no API access, or the user lacks it: give the user the permission API "
        "Enabled."
    ),
    "API_CURRENTLY_DISABLED": "Give the user the permission API Enabled.",
    "FUNCTIONALITY_NOT_ENABLED": (
        "Read by the other way (`read_by`), or let an administrator enable it."
    ),
    "INSUFFICIENT_ACCESS": "Give the connection's user the permission to read this object.",
    "INVALID_TYPE": (
        "There is no such object, or the connection's user may not see it: check the name, and "
        "the user's permissions."
    ),
    "INVALID_TYPE_FOR_OPERATION": "This object cannot be read by a query.",
    "INVALIDENTITY": "The Bulk API does not have this object: read it with read_by='rest'.",
    "NOT_FOUND": (
        "There is no such object, or the connection's user may not see it: check the name, and "
        "the user's permissions."
    ),
}

_AT_ONCE = (
    "Clients of the org have more long requests at once than it allows. This passes: try again "
    "later."
)
NO_RESOURCE = (
    "The REST API does not have this resource there: check the connection's instance URL, and that "
    "a gateway or proxy before the org passes REST requests on."
)
_NO_ACCESS = "Check the connection's instance URL, and the user's permission API Enabled."
TOO_LONG = (
    "The URI and the headers are too long, for Salesforce (16,384 bytes together) or for a proxy "
    "before it: read the object as a whole with read_by='bulk'."
)
_TOO_LONG = (414, 431)
_OF_AN_OBJECT = re.compile(r"/(sobjects/.|query|queryAll|jobs/)")


def code_of(body: bytes) -> tuple[str, str]:
    """Error code and message of an answer; both empty if it has none."""
    try:
        said = json.loads(body)
    except ValueError:
        return "", ""
    first = said[0] if isinstance(said, list) and said else said
    if not isinstance(first, dict):
        return "", ""
    return str(first.get("errorCode", "")), str(first.get("message", ""))


def rest_error(doing: str, status: int, body: bytes, path: str) -> SfEventsError:
    """Make the error for an unsuccessful answer.

    :param doing: the purpose, as the beginning of a sentence.
    :param path: of the resource; only some are about an object, whose name may be wrong.
    """
    code, message = code_of(body)
    said = f"{doing}: HTTP {status} {code} {message}".rstrip()
    said = " ".join(said.split())[:500].rstrip(".")
    if code == SESSION_REFUSED or status == 401:
        return AuthenticationError(
            f"{said}. The org does not take the session, though it was fresh: let an administrator "
            "check the app's scope `api` and the user."
        )
    if code == "REQUEST_LIMIT_EXCEEDED" and "concurrent" in message.lower():
        return TransportError(f"{said}. {_AT_ONCE}")
    if code == "REQUEST_LIMIT_EXCEEDED":
        return QuotaExceededError(
            f"{said}. The org's API requests of 24 hours are used up: wait, or read fewer records."
        )
    if org_http.passes(status) or code in PASSING:
        return TransportError(f"{said}. Try again later.")
    return ConfigurationError(f"{said}. {_remedy(code, status, path)}")


def _remedy(code: str, status: int, path: str) -> str:
    if _OF_AN_OBJECT.search(path):
        if status in _TOO_LONG:
            return TOO_LONG
        return REMEDIES.get(code, "Check the object's name and the user's permissions.")
    if code == "NOT_FOUND" or status == 404:
        return NO_RESOURCE
    return REMEDIES.get(code, _NO_ACCESS)
