"""Logging in: turns settings into a session over HTTP. Keeps nothing.

The org id comes from the answer's `id` URL, else from the token's prefix, else from the userinfo endpoint; the first two need no
further request.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    TransportError,
)
from airflow_provider_sfevents.pubsub import oauth_errors
from airflow_provider_sfevents.pubsub.assertion import sign_assertion
from airflow_provider_sfevents.pubsub.http import open_http, unreachable
from airflow_provider_sfevents.pubsub.session import (
    Session,
    ids_from_url,
    is_org_id,
    long_id,
    org_id_from_token,
)
from airflow_provider_sfevents.pubsub.settings import (
    ClientCredentials,
    JwtBearer,
    SessionToken,
    Settings,
    base_url,
)

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_provider_sfevents.pubsub.clock import Clock

LOGIN_SECONDS = 10.0
_TOKEN_PATH = "/services/oauth2/token"  # noqa: S105 - a path
_USERINFO_PATH = "/services/oauth2/userinfo"
_JWT_GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


async def log_in(settings: Settings, clock: Clock) -> Session:
    """Log in; a session token needs no request, unless its org is unknown.

    :raises AuthenticationError: refused, with Salesforce's reason and our remedy.
    :raises ConfigurationError: the host is no Salesforce login, its certificate is not trusted, or the key is unreadable.
    :raises TransportError: the host cannot be reached just now.
    """
    login = settings.login
    try:
        async with (
            asyncio.timeout(LOGIN_SECONDS),
            open_http(settings, settings.login.login_url, LOGIN_SECONDS) as http,
        ):
            if isinstance(login, SessionToken):
                return await _given(http, login)
            answer = await http.post(login.login_url + _TOKEN_PATH, data=_form(login, clock.now()))
            return await _session(http, login.login_url, _granted(answer, login, clock.now()))
    except TimeoutError as error:
        raise TransportError(
            f"{login.login_url} did not answer the login within {LOGIN_SECONDS:.0f} s. Check host, network and proxy."
        ) from error
    except httpx.HTTPError as error:
        raise unreachable(login.login_url, error, settings.ca_file) from error


def _form(login: ClientCredentials | JwtBearer, now: datetime) -> dict[str, str]:
    if isinstance(login, ClientCredentials):
        return {
            "grant_type": "client_credentials",
            "client_id": login.client_id,
            "client_secret": login.client_secret,
        }
    return {"grant_type": _JWT_GRANT, "assertion": sign_assertion(login, now)}


def _granted(
    answer: httpx.Response, login: ClientCredentials | JwtBearer, now: datetime
) -> dict[str, Any]:
    """The token answer's JSON. :raises SfEventsError: when it is none."""
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
            f"{login.login_url}{_TOKEN_PATH} answered HTTP {answer.status_code}{moved}, not as a Salesforce login does. "
            "Set the host to the org's My Domain, https://<my domain>.my.salesforce.com."
        )
    if "error" in value:
        raise _refused(value, answer, login, now)
    return value


def _refused(
    value: dict[str, Any],
    answer: httpx.Response,
    login: ClientCredentials | JwtBearer,
    now: datetime,
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


async def _session(http: httpx.AsyncClient, login_url: str, value: dict[str, Any]) -> Session:
    token = str(value["access_token"])
    instance_url = base_url(
        str(value.get("instance_url") or login_url), "instance URL in the login's answer"
    )
    org_id, user_id = ids_from_url(str(value.get("id", "")))
    org_id = org_id or org_id_from_token(token) or await _asked_org_id(http, instance_url, token)
    return Session(token=token, instance_url=instance_url, org_id=org_id, user_id=user_id)


async def _given(http: httpx.AsyncClient, login: SessionToken) -> Session:
    org_id = login.org_id.strip()
    if org_id and not is_org_id(org_id):
        raise ConfigurationError(
            f"The org id {org_id!r} is none: an org id begins with 00D and has 15 or 18 characters."
        )
    org_id = (
        long_id(org_id)
        or org_id_from_token(login.token)
        or await _asked_org_id(http, login.instance_url, login.token)
    )
    return Session(token=login.token, instance_url=login.instance_url, org_id=org_id)


async def _asked_org_id(http: httpx.AsyncClient, instance_url: str, token: str) -> str:
    answer = await http.get(
        instance_url + _USERINFO_PATH, headers={"Authorization": f"Bearer {token}"}
    )
    if answer.status_code in {401, 403}:
        raise AuthenticationError(
            f"{instance_url} refused the session token (HTTP {answer.status_code}). Give a fresh one, and set org_id if the "
            "token's scopes do not include openid."
        )
    try:
        org_id = str(answer.json()["organization_id"])
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"The org id cannot be read from the token, and {instance_url}{_USERINFO_PATH} (HTTP {answer.status_code}) did not "
            "tell it. Set org_id in the connection."
        ) from error
    return long_id(org_id)


def _abridged(client_id: str) -> str:
    """Enough of a consumer key to recognise it."""
    return client_id if len(client_id) <= 12 else f"{client_id[:8]}…{client_id[-4:]}"
