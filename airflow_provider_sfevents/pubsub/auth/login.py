"""Login: settings become a session over HTTP. Keeps no state.

The org id comes from the answer's `id` URL or its `organizationId`, otherwise from the token's
prefix, otherwise from the userinfo endpoint; only the last one needs a further request. The user's
id comes from the answer; if a login does not return it, `look_up_user` asks the same endpoint.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import httpx

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth import soap_client, token_endpoint
from airflow_provider_sfevents.pubsub.auth.org_http import (
    BearerAuth,
    SecretBody,
    open_http,
    passes,
    unreachable,
)
from airflow_provider_sfevents.pubsub.auth.secret import NO_SECRET, Secret
from airflow_provider_sfevents.pubsub.auth.session import (
    Session,
    ids_from_url,
    org_id_from_token,
    org_id_of,
    user_id_of,
)
from airflow_provider_sfevents.pubsub.auth.settings import (
    END_OF_SOAP,
    OAuthLogin,
    RefreshToken,
    SessionToken,
    Settings,
    SoapLogin,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.clock import Clock

log = logging.getLogger(__name__)

LOGIN_SECONDS = 10.0
USERINFO_PATH = "/services/oauth2/userinfo"
_FORM = "application/x-www-form-urlencoded"
_NOT_AN_ORG_ID = "an org id begins with 00D and has 15 or 18 characters"


@dataclass(frozen=True, slots=True, kw_only=True)
class _UserInfo:
    """Answer of the userinfo endpoint. :param user_id: empty if the answer lacks it."""

    org_id: str
    user_id: str


async def log_in(settings: Settings, clock: Clock) -> Session:
    """Log in; a session token needs no request, unless its org is unknown.

    :raises AuthenticationError: refused, with Salesforce's reason and the remedy.
    :raises ConfigurationError: the host is no Salesforce login, its certificate is not trusted, or
        the key is unreadable.
    :raises TransportError: the host cannot be reached just now.
    """
    login = settings.login
    seconds = settings.answer_seconds(LOGIN_SECONDS)
    try:
        async with (
            asyncio.timeout(seconds),
            open_http(settings, login.login_url, seconds) as http,
        ):
            if isinstance(login, SessionToken):
                return await _given(http, login)
            if isinstance(login, SoapLogin):
                return await _by_soap(http, settings, login)
            return await _by_oauth(http, settings, login, clock)
    except TimeoutError as error:
        raise TransportError(
            f"{login.login_url} did not answer the login within {seconds:g} s. Check host, network "
            "and proxy; answer_timeout of the connection lets it wait longer."
        ) from error
    except httpx.HTTPError as error:
        raise unreachable(login.login_url, error, settings.ca_file) from error


async def look_up_user(settings: Settings, session: Session) -> str:
    """The id of the user that a session acts as; empty if the org does not reveal it to this token.

    :raises TransportError: the org cannot be reached just now.
    """
    try:
        seconds = settings.answer_seconds(LOGIN_SECONDS)
        async with open_http(settings, session.instance_url, seconds) as http:
            return (await _user_info(http, session.instance_url, session.token)).user_id
    except httpx.HTTPError as error:
        raise unreachable(session.instance_url, error, settings.ca_file) from error
    except (AuthenticationError, ConfigurationError) as error:
        log.info("The user of the session is not known: %s", error)
        return ""


async def _by_oauth(
    http: httpx.AsyncClient, settings: Settings, login: OAuthLogin, clock: Clock
) -> Session:
    body = SecretBody(urlencode(token_endpoint.form(login, clock.now())).encode(), _FORM)
    answer = await http.post(
        login.login_url + token_endpoint.PATH, content=body, headers=body.headers
    )
    found = token_endpoint.read_grant(answer, login, clock.now())
    if isinstance(login, RefreshToken) and found.refresh_token not in {
        NO_SECRET,
        login.refresh_token,
    }:
        log.warning(
            "The app of consumer key %s gives a new refresh token with each login, so the one in "
            "the connection is used up and the next login will be refused. Switch refresh token "
            "rotation off in the app, or use another login.",
            login.client_id,
        )
    instance_url = settings.instance_url(found.instance_url or login.login_url)
    org_id, user_id = ids_from_url(found.id_url)
    org_id = org_id or org_id_from_token(found.token)
    if not org_id:
        asked = await _user_info(http, instance_url, found.token)
        org_id, user_id = asked.org_id, asked.user_id
    return Session(
        token=found.token,
        instance_url=instance_url,
        org_id=org_id,
        user_id=user_id,
        scopes=frozenset(found.scope.split()),
    )


async def _by_soap(http: httpx.AsyncClient, settings: Settings, login: SoapLogin) -> Session:
    log.warning("Logging in to %s by SOAP. %s", login.login_url, END_OF_SOAP)
    body = SecretBody(soap_client.envelope(login), soap_client.MEDIA_TYPE)
    answer = await http.post(
        login.login_url + soap_client.login_path(login),
        content=body,
        headers={**soap_client.HEADERS, **body.headers},
    )
    found = soap_client.read_answer(login, answer)
    instance_url = settings.instance_url(found.server_url)
    org_id, user_id = org_id_of(found.org_id), user_id_of(found.user_id)
    if found.org_id and not org_id:
        raise ConfigurationError(
            f"{login.login_url} answered the login with the org id {found.org_id[:40]!r}, and "
            f"{_NOT_AN_ORG_ID}. Check the connection's host: is it Salesforce that answers there?"
        )
    org_id = org_id or org_id_from_token(found.token)
    org_id = org_id or (await _user_info(http, instance_url, found.token)).org_id
    return Session(token=found.token, instance_url=instance_url, org_id=org_id, user_id=user_id)


async def _given(http: httpx.AsyncClient, login: SessionToken) -> Session:
    typed, user_id = login.org_id.strip(), ""
    org_id = org_id_of(typed) or org_id_from_token(login.token)
    if typed and not org_id_of(typed):
        raise ConfigurationError(f"The org id {typed!r} is not valid: {_NOT_AN_ORG_ID}.")
    if not org_id:
        asked = await _user_info(http, login.instance_url, login.token)
        org_id, user_id = asked.org_id, asked.user_id
    return Session(
        token=login.token, instance_url=login.instance_url, org_id=org_id, user_id=user_id
    )


async def _user_info(http: httpx.AsyncClient, instance_url: str, token: Secret) -> _UserInfo:
    """Org and user of a token, from the org itself.

    :raises AuthenticationError: the org refuses the token, or the token may not ask.
    :raises ConfigurationError: the answer has no org id.
    """
    answer = await http.get(instance_url + USERINFO_PATH, auth=BearerAuth(token))
    if answer.status_code in {401, 403}:
        raise AuthenticationError(
            f"{instance_url} refused the session token (HTTP {answer.status_code}). Give a fresh "
            "one, and set org_id if the token's scopes do not include openid."
        )
    if passes(answer.status_code):
        raise TransportError(
            f"{instance_url}{USERINFO_PATH} answered HTTP {answer.status_code}. Try again later."
        )
    try:
        said: dict[str, Any] = answer.json()
        org_id, user_id = str(said["organization_id"]), str(said.get("user_id", ""))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"The org id cannot be read from the token, and {instance_url}{USERINFO_PATH} (HTTP "
            f"{answer.status_code}) did not return it. Set org_id in the connection."
        ) from error
    if not org_id_of(org_id):
        raise ConfigurationError(
            f"{instance_url}{USERINFO_PATH} returned the org id {org_id[:40]!r}, and "
            f"{_NOT_AN_ORG_ID}. Check the connection's host: is it Salesforce that answers "
            "there? Otherwise set org_id in the connection."
        )
    return _UserInfo(org_id=org_id_of(org_id), user_id=user_id_of(user_id))
