"""Remedies for refusals of the token endpoint."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from airflow_provider_sfevents.pubsub.auth.oauth_errors import clock_skew, remedy

NOW = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("error", "description", "part"),
    [
        ("invalid_grant", "authentication failure", "user name"),
        ("invalid_grant", "request not supported on this domain", "My Domain"),
        ("invalid_grant", "no client credentials user enabled", "run-as user"),
        ("invalid_grant", "client credentials flow not enabled", "Enable the client credentials"),
        ("invalid_client_id", "client identifier invalid", "consumer key"),
        ("invalid_client", "invalid client credentials", "consumer secret"),
        ("invalid_grant", "user hasn't approved this consumer", "pre-authorise"),
        ("invalid_grant", "user is not admin approved to access this app", "pre-authorise"),
        ("invalid_app_access", "user is not admin approved to access this app", "pre-authorise"),
        ("app_not_found", "External client app is not installed in this org", "Install"),
        ("invalid_grant", "Audience validation failed", "jwt_audience"),
        ("invalid_grant", "expired authorization code", "clock"),
        ("invalid_grant", "invalid assertion", "certificate"),
        ("invalid_grant", "expired access/refresh token", "new credentials"),
        ("unsupported_grant_type", "grant type not supported", "flow"),
        ("inactive_user", "user is inactive", "Activate"),
        ("inactive_org", "organization inactive", "administrator"),
        ("rate_limit_exceeded", "login rate exceeded", "share one connection"),
        ("invalid_grant", "login rate exceeded", "share one connection"),
        ("invalid_grant", "something new", "OAuth policies"),
        ("something_new", "", "OAuth policies"),
    ],
)
def test_each_refusal_has_a_remedy(error: str, description: str, part: str) -> None:
    """Each pair that Salesforce sends leads to the setting that helps."""
    said, passes = remedy(error, description)
    assert part in said
    assert not passes


@pytest.mark.parametrize(
    ("error", "description"),
    [
        ("invalid_grant", "token request is already being processed"),
        ("unknown_error", "retry your request"),
    ],
)
def test_what_passes_is_told_apart(error: str, description: str) -> None:
    """A refusal that the same login does not meet again says so."""
    said, passes = remedy(error, description)
    assert "try again" in said
    assert passes


@pytest.mark.parametrize(
    ("date", "said"),
    [
        ("Sat, 21 Nov 2026 12:00:10 GMT", ""),
        ("Sat, 21 Nov 2026 12:05:12 GMT", "This machine's clock is 312 s behind the server's."),
        ("Sat, 21 Nov 2026 11:50:00 GMT", "This machine's clock is 600 s ahead of the server's."),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_a_clock_that_is_off_is_told(date: str, said: str) -> None:
    """A clock that is off by a notable skew is named, by the answer's own Date header."""
    assert clock_skew(date, NOW) == said
