"""Remedies for refusals of the token endpoint.

The pairs are those that Salesforce sends with HTTP 400 as `error` and `error_description` ("OAuth
2.0 Authorization Errors" in its help, and answers seen from live orgs).
"""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

# A smaller skew does not explain a refusal: assertions are valid for minutes.
NOTABLE_SKEW_SECONDS = 30

_TOO_MANY = "Too many logins: wait, and let tasks share one connection."

# (error, part of its description, remedy); the first match counts.
REMEDIES: tuple[tuple[str, str, str], ...] = (
    (
        "invalid_grant",
        "not supported on this domain",
        "Client credentials are accepted on the org's My Domain only: set the host to "
        "https://<my domain>.my.salesforce.com (of a connection of type `salesforce`, the domain "
        "to <my domain>.my).",
    ),
    (
        "invalid_grant",
        "no client credentials user",
        "The app has no run-as user: set one in the app's client credentials policy.",
    ),
    (
        "invalid_grant",
        "client credentials flow not enabled",
        "Enable the client credentials flow in the app's OAuth settings.",
    ),
    (
        "invalid_client_id",
        "",
        "The org does not know this consumer key: check the connection's consumer key (its login "
        "field), and the host.",
    ),
    (
        "invalid_client",
        "",
        "The consumer secret is wrong, or is missing although the app requires one: copy it "
        "again into the connection's consumer secret (its password field).",
    ),
    (
        "invalid_grant",
        "approved",
        "The app is not approved for this user: pre-authorise the user's profile or a permission "
        "set in the app's policies.",
    ),
    (
        "invalid_app_access",
        "",
        "The app is not approved for this user: pre-authorise the user's profile or a permission "
        "set in the app's policies.",
    ),
    (
        "app_not_found",
        "",
        "Install the external client app in this org, or log in to the org that has it.",
    ),
    (
        "invalid_grant",
        "audience",
        "Set jwt_audience to https://login.salesforce.com, or to https://test.salesforce.com for "
        "a sandbox.",
    ),
    (
        "invalid_grant",
        "expired authorization code",
        "The org took the signed assertion for expired: this machine's clock is off. Set it by "
        "NTP.",
    ),
    (
        "invalid_grant",
        "assertion",
        "The org could not verify the signed assertion: the private key must belong to the "
        "certificate uploaded to the app, and this machine's clock must be right.",
    ),
    (
        "invalid_grant",
        "expired access/refresh token",
        "The grant was revoked or has expired: give new credentials, for the login "
        "`refresh_token` a new refresh token.",
    ),
    (
        "invalid_grant",
        "authentication failure",
        "Check user name and consumer key, and for the login `password` the user's password and "
        "security token; that the user is active and may log in from this address; and that the "
        "org allows OAuth username-password flows, which newer ones do not by themselves.",
    ),
    (
        "unsupported_grant_type",
        "",
        "The host does not offer this flow: check that it is the org's login host.",
    ),
    ("inactive_user", "", "Activate the connection's user."),
    ("inactive_org", "", "The org is locked or closed: ask its administrator."),
    ("rate_limit_exceeded", "", _TOO_MANY),
    ("invalid_grant", "login rate exceeded", _TOO_MANY),
)

# As in `REMEDIES`; the same login may be accepted right after these. Salesforce lets no two
# requests with one refresh token run at a time (its release notes of Summer '24).
PASSING: tuple[tuple[str, str, str], ...] = (
    (
        "invalid_grant",
        "already being processed",
        "Another task logs in by the same refresh token just now: try again.",
    ),
    ("unknown_error", "retry your request", "Salesforce asks to try again."),
)

_DEFAULT = "Check the connection's credentials, and the app's OAuth policies in the org."


def remedy(error: str, description: str) -> tuple[str, bool]:
    """Remedy for an OAuth refusal, always a sentence, and whether the refusal passes."""
    said = description.casefold()
    for name, part, text in (*PASSING, *REMEDIES):
        if name == error and part in said:
            return text, (name, part, text) in PASSING
    return _DEFAULT, False


def seconds_ahead(date_header: str, now: datetime) -> float | None:
    """Seconds by which this machine's clock is ahead of an answer's `Date` header; None without it.

    The header has whole seconds, and the answer's way takes some time.
    """
    try:
        there = parsedate_to_datetime(date_header)
    except (TypeError, ValueError):
        return None
    return (now - there.astimezone(UTC)).total_seconds()


def clock_skew(date_header: str, now: datetime) -> str:
    """A sentence about this machine's clock if the answer's `Date` header shows that it is off.

    Otherwise empty.
    """
    ahead = seconds_ahead(date_header, now)
    return "" if ahead is None else skew_sentence(ahead)


def skew_sentence(ahead: float) -> str:
    """A sentence about a clock that is so many seconds ahead; empty if that explains no refusal."""
    if abs(ahead) < NOTABLE_SKEW_SECONDS:
        return ""
    return (
        f"This machine's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the "
        "server's."
    )
