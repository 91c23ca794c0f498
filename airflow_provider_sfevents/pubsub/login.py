"""Logging in: turns settings into a session over HTTP. Keeps nothing.

The org id comes from the answer's `id` URL or its `organizationId`, else from the token's prefix, else from the userinfo endpoint; the first
two need no further request.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import httpx

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    TransportError,
)
from airflow_provider_sfevents.pubsub import soap, token_endpoint
from airflow_provider_sfevents.pubsub.http import open_http, unreachable
from airflow_provider_sfevents.pubsub.session import (
    Session,
    ids_from_url,
    is_org_id,
    long_id,
    org_id_from_token,
)
from airflow_provider_sfevents.pubsub.settings import (
    END_OF_SOAP,
    OAuthLogin,
    RefreshToken,
    SessionToken,
    Settings,
    SoapLogin,
    base_url,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.clock import Clock

log = logging.getLogger(__name__)

LOGIN_SECONDS = 10.0
_USERINFO_PATH = "/services/oauth2/userinfo"


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
            open_http(settings, login.login_url, LOGIN_SECONDS) as http,
        ):
            if isinstance(login, SessionToken):
                return await _given(http, login)
            if isinstance(login, SoapLogin):
                return await _by_soap(http, login)
            return await _by_oauth(http, login, clock)
    except TimeoutError as error:
        raise TransportError(
            f"{login.login_url} did not answer the login within {LOGIN_SECONDS:.0f} s. Check host, network and proxy."
        ) from error
    except httpx.HTTPError as error:
        raise unreachable(login.login_url, error, settings.ca_file) from error


async def _by_oauth(http: httpx.AsyncClient, login: OAuthLogin, clock: Clock) -> Session:
    asked = token_endpoint.form(login, clock.now())
    answer = await http.post(login.login_url + token_endpoint.PATH, data=asked)
    value = token_endpoint.granted(answer, login, clock.now())
    if isinstance(login, RefreshToken) and value.get("refresh_token", "") not in {
        "",
        login.refresh_token,
    }:
        log.warning(
            "The app of consumer key %s gives a new refresh token with each login, and the one in the connection is used up: the next login will be "
            "refused. Switch refresh token rotation off in the app, or use another login.",
            login.client_id,
        )
    return await _session(http, login.login_url, value)


async def _by_soap(http: httpx.AsyncClient, login: SoapLogin) -> Session:
    log.warning("Logging in to %s by SOAP. %s", login.login_url, END_OF_SOAP)
    answer = await http.post(
        login.login_url + soap.login_path(login), content=soap.envelope(login), headers=soap.HEADERS
    )
    found = soap.read_answer(login, answer.status_code, answer.content)
    org_id = found.org_id or await _asked_org_id(http, found.instance_url, found.token)
    return Session(
        token=found.token, instance_url=found.instance_url, org_id=org_id, user_id=found.user_id
    )


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
