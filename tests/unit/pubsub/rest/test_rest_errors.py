"""Errors of the REST API as a user reads them."""

from __future__ import annotations

import json

import pytest

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.rest.rest_errors import rest_error


@pytest.mark.parametrize(
    ("status", "code", "kind", "said"),
    [
        (403, "API_DISABLED_FOR_ORG", ConfigurationError, "permission API Enabled"),
        (403, "API_CURRENTLY_DISABLED", ConfigurationError, "permission API Enabled"),
        (404, "NOT_FOUND", ConfigurationError, "no such object"),
        (400, "INVALID_TYPE", ConfigurationError, "no such object"),
        (400, "INVALIDENTITY", ConfigurationError, "read_by='rest'"),
        (400, "SOMETHING_NEW", ConfigurationError, "Check the object's name"),
        (401, "INVALID_SESSION_ID", AuthenticationError, "scope `api`"),
        (403, "REQUEST_LIMIT_EXCEEDED", QuotaExceededError, "24 hours"),
        (503, "SERVER_UNAVAILABLE", TransportError, "Try again later"),
        (400, "QUERY_TIMEOUT", TransportError, "Try again later"),
    ],
)
def test_each_refusal_says_what_to_do(
    status: int, code: str, kind: type[Exception], said: str
) -> None:
    """A refusal is one line with the request, the org's words and the remedy."""
    body = json.dumps([{"errorCode": code, "message": "Because.\nSo."}]).encode()
    error = rest_error("Describing Account", status, body, "/services/data/v60.0/sobjects/Account")
    assert type(error) is kind
    assert str(error).startswith(f"Describing Account: HTTP {status} {code} Because. So. ")
    assert said in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b'"no"', b"[1]"])
def test_an_answer_of_another_make(body: bytes) -> None:
    """The status decides if an answer has no error code, as a proxy's page."""
    assert str(rest_error("Describing Account", 502, body, "/sobjects/Account")) == (
        "Describing Account: HTTP 502. Try again later."
    )


@pytest.mark.parametrize("limit", ["ConcurrentRequests (Concurrent API Requests)", "concurrent"])
def test_too_many_requests_at_once_pass(limit: str) -> None:
    """The limit on requests at once has the code of the daily one, and is no daily one."""
    said = [{"errorCode": "REQUEST_LIMIT_EXCEEDED", "message": f"{limit} Limit exceeded."}]
    body = json.dumps(said).encode()
    error = rest_error("Reading the org's limits", 403, body, "/services/data/v60.0/limits")
    assert type(error) is TransportError
    assert "long requests at once" in str(error)
    assert "24 hours" not in str(error)


@pytest.mark.parametrize("status", [408, 429])
@pytest.mark.parametrize("path", ["/services/data/v60.0/limits", "/services/data/v60.0/query"])
def test_a_throttled_request_passes(status: int, path: str) -> None:
    """A gateway that throttles, or waited too long for the request, is tried again."""
    error = rest_error("Reading", status, b"<html>slow down", path)
    assert type(error) is TransportError
    assert str(error) == f"Reading: HTTP {status}. Try again later."


@pytest.mark.parametrize("status", [414, 431])
def test_a_request_that_is_too_long(status: int) -> None:
    """No name and no permission is blamed for a URI or headers that are too long."""
    body = f"<h1>Bad Message {status}</h1><pre>reason: URI Too Long</pre>".encode()
    error = rest_error("Reading Account over REST", status, body, "/services/data/v60.0/query")
    assert isinstance(error, ConfigurationError)
    assert "read_by='bulk'" in str(error)
    assert "permissions" not in str(error)


@pytest.mark.parametrize("path", ["/services/data/v60.0/sobjects", "/services/data/v60.0/limits"])
@pytest.mark.parametrize(
    ("status", "code", "said"),
    [
        (
            404,
            "NOT_FOUND",
            "does not have this resource there: check the connection's instance URL",
        ),
        (404, "", "does not have this resource there"),
        (405, "METHOD_NOT_ALLOWED", "permission API Enabled"),
        (403, "API_DISABLED_FOR_ORG", "permission API Enabled"),
    ],
)
def test_a_resource_that_is_not_about_an_object(
    path: str, status: int, code: str, said: str
) -> None:
    """For a resource without an object, no object's name is blamed."""
    body = json.dumps([{"errorCode": code, "message": "No."}]).encode() if code else b"<html>"
    error = rest_error("Listing the org's objects", status, body, path)
    assert isinstance(error, ConfigurationError)
    assert said in str(error)
    assert "object's name" not in str(error)
    assert "no such object" not in str(error)
