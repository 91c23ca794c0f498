"""The OAuth token endpoint: the form of each flow, and the meaning of the answers. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth import oauth_errors, org_http
from airflow_provider_sfevents.pubsub.auth.jwt_assertion import sign_assertion
from airflow_provider_sfevents.pubsub.auth.secret import NO_SECRET, Secret
from airflow_provider_sfevents.pubsub.auth.settings import (
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


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenGrant:
    """Fields of the token endpoint's answer, as far as they are used; empty if absent.

    :param id_url: names org and user.
    :param refresh_token: a new one, if the app gives one with each login.
    :param scope: names of scopes, separated by spaces.
    :param error: a refusal, with its `description`.
    """

    token: Secret = NO_SECRET
    instance_url: str = ""
    id_url: str = ""
    refresh_token: Secret = NO_SECRET
    scope: str = ""
    error: str = ""
    description: str = ""


def form(login: OAuthLogin, now: datetime) -> dict[str, str]:
    """The request's fields; the result gets no name, see `Secret`.

    :raises ConfigurationError: the private key is unreadable.
    """
    if isinstance(login, JwtBearer):
        return {"grant_type": _JWT_GRANT, "assertion": sign_assertion(login, now)}
    app = {"client_id": login.client_id}
    if login.client_secret:
        app["client_secret"] = login.client_secret.reveal()
    if isinstance(login, ClientCredentials):
        return {"grant_type": "client_credentials", **app}
    if isinstance(login, RefreshToken):
        return {"grant_type": "refresh_token", "refresh_token": login.refresh_token.reveal(), **app}
    return {
        "grant_type": "password",
        **app,
        "username": login.username,
        "password": login.password.reveal() + login.security_token.reveal(),
    }


def read_grant(answer: httpx.Response, login: OAuthLogin, now: datetime) -> TokenGrant:
    """Return the grant in an answer of the token endpoint.

    :raises AuthenticationError: refused, with Salesforce's reason and the remedy.
    :raises ConfigurationError: the host is no Salesforce login.
    :raises TransportError: the host is away or busy, or asks to try again.
    """
    if org_http.passes(answer.status_code):
        raise TransportError(
            f"{login.login_url} answered the login with HTTP {answer.status_code}. Try again later."
        )
    found = _read(answer)
    if not found.token and not found.error:
        moved = (
            f", pointing to {answer.headers['location'].split('?')[0]}"
            if "location" in answer.headers
            else ""
        )
        raise ConfigurationError(
            f"{login.login_url}{PATH} answered HTTP {answer.status_code}{moved}, not as a "
            "Salesforce login does. Set the host to the org's My Domain, https://<my "
            "domain>.my.salesforce.com."
        )
    if found.error:
        raise _refused(found.error, found.description, answer, login, now)
    return found


def _read(answer: httpx.Response) -> TokenGrant:
    """Fields of the answer; none if it is no JSON object."""
    try:
        value = answer.json()
    except ValueError:
        return TokenGrant()
    if not isinstance(value, dict):
        return TokenGrant()

    def text(name: str) -> str:
        said: Any = value.get(name)
        return "" if said is None else str(said)

    return TokenGrant(
        token=Secret(text("access_token")),
        instance_url=text("instance_url"),
        id_url=text("id"),
        refresh_token=Secret(text("refresh_token")),
        scope=text("scope"),
        error=text("error"),
        description=text("error_description"),
    )


def _refused(
    error: str, description: str, answer: httpx.Response, login: OAuthLogin, now: datetime
) -> AuthenticationError | TransportError:
    skew = (
        oauth_errors.clock_skew(answer.headers.get("date", ""), now)
        if isinstance(login, JwtBearer)
        else ""
    )
    remedy, passes = oauth_errors.remedy(error, description)
    parts = (
        f"{login.login_url} refused the login of consumer key {_abridged(login.client_id)}: "
        f"{error} ({description}).",
        remedy,
        skew,
    )
    kind = TransportError if passes else AuthenticationError
    return kind(" ".join(part for part in parts if part))


def _abridged(client_id: str) -> str:
    """A consumer key, shortened but recognisable."""
    return client_id if len(client_id) <= 12 else f"{client_id[:8]}…{client_id[-4:]}"
