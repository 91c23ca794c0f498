"""The OAuth token endpoint: what is asked of it for each flow, and what its answer means. Pure, but for what the answer holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    TransportError,
)
from airflow_provider_sfevents.pubsub import oauth_errors
from airflow_provider_sfevents.pubsub.assertion import sign_assertion
from airflow_provider_sfevents.pubsub.settings import (
    ClientCredentials,
    JwtBearer,
    OAuthLogin,
    RefreshToken,
)

if TYPE_CHECKING:
    from datetime import datetime

    import httpx

PATH = "/services/oauth2/token"
_JWT_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def form(login: OAuthLogin, now: datetime) -> dict[str, str]:
    """The request's fields.

    :raises ConfigurationError: the private key is unreadable.
    """
    if isinstance(login, JwtBearer):
        return {"grant_type": _JWT_GRANT, "assertion": sign_assertion(login, now)}
    app = {"client_id": login.client_id}
    if login.client_secret:
        app["client_secret"] = login.client_secret
    if isinstance(login, ClientCredentials):
        return {"grant_type": "client_credentials", **app}
    if isinstance(login, RefreshToken):
        return {"grant_type": "refresh_token", "refresh_token": login.refresh_token, **app}
    return {
        "grant_type": "password",
        **app,
        "username": login.username,
        "password": login.password + login.security_token,
    }


def granted(answer: httpx.Response, login: OAuthLogin, now: datetime) -> dict[str, Any]:
    """The answer's JSON.

    :raises AuthenticationError: refused, with Salesforce's reason and our remedy.
    :raises ConfigurationError: the host is no Salesforce login. :raises TransportError: it is away.
    """
    if answer.status_code >= 500:
        raise TransportError(
            f"{login.login_url} answered the login with HTTP {answer.status_code}. Try again later."
        )
    try:
        value = answer.json()
    except ValueError:
        value = None
    if not isinstance(value, dict) or not ({"access_token", "error"} & value.keys()):
        moved = (
            f", pointing to {answer.headers['location'].split('?')[0]}"
            if "location" in answer.headers
            else ""
        )
        raise ConfigurationError(
            f"{login.login_url}{PATH} answered HTTP {answer.status_code}{moved}, not as a Salesforce login does. "
            "Set the host to the org's My Domain, https://<my domain>.my.salesforce.com."
        )
    if "error" in value:
        raise _refused(value, answer, login, now)
    return value


def _refused(
    value: dict[str, Any], answer: httpx.Response, login: OAuthLogin, now: datetime
) -> AuthenticationError:
    error, description = str(value["error"]), str(value.get("error_description", ""))
    skew = (
        oauth_errors.clock_skew(answer.headers.get("date", ""), now)
        if isinstance(login, JwtBearer)
        else ""
    )
    parts = (
        f"{login.login_url} refused the login of consumer key {_abridged(login.client_id)}: {error} ({description}).",
        oauth_errors.remedy(error, description),
        skew,
    )
    return AuthenticationError(" ".join(part for part in parts if part))


def _abridged(client_id: str) -> str:
    """Enough of a consumer key to recognise it."""
    return client_id if len(client_id) <= 12 else f"{client_id[:8]}…{client_id[-4:]}"
