"""What the token endpoint answers. Decided here without I/O; statuses and texts are Salesforce's.

Source: Salesforce help, "OAuth 2.0 ... Flow for Server-to-Server Integration", "OAuth Authorization Errors"; live logs.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_provider_sfevents.emulator.clock import Clock
    from airflow_provider_sfevents.emulator.identities import App, Identity
    from airflow_provider_sfevents.emulator.knobs import Knobs
    from airflow_provider_sfevents.emulator.sessions import Session, Sessions

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_REAL_AUDIENCES = ("https://login.salesforce.com", "https://test.salesforce.com")


class OAuthRefused(Exception):  # noqa: N818 - named for what the client gets
    """HTTP 400 with an error and its description."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = description


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An org as the login server sees it."""

    identity: Identity
    instance_url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """The token endpoint of one host.

    :param tenants: the orgs whose apps can log in here; called for each request, since orgs can be added.
    :param my_domain: whether this is an org's own host and not the one for all.
    :param audiences: own addresses a JWT may name, beside Salesforce's.
    """

    tenants: Callable[[], Sequence[Tenant]]
    my_domain: bool
    audiences: Callable[[], Sequence[str]]
    sessions: Sessions
    clock: Clock
    knobs: Knobs

    def answer(self, form: Mapping[str, str], authorization: str = "") -> dict[str, str]:
        """Token response.

        :raises OAuthRefused: when there is none.
        """
        match form.get("grant_type", ""):
            case "client_credentials":
                return self._client_credentials({**_basic(authorization), **form})
            case grant if grant == JWT_BEARER:
                return self._jwt_bearer(form.get("assertion", ""))
        # The password and refresh grants exist on real orgs; newer orgs block the one, and nothing here gives out
        # refresh tokens for the other.
        raise OAuthRefused("unsupported_grant_type", "grant type not supported")

    def _client_credentials(self, form: Mapping[str, str]) -> dict[str, str]:
        if not self.my_domain and not self.knobs.client_credentials_on_login_host:
            raise OAuthRefused("invalid_grant", "request not supported on this domain")
        tenant = self._tenant(form.get("client_id", ""))
        app = tenant.identity.app
        if not hmac.compare_digest(
            form.get("client_secret", "").encode(), app.consumer_secret.encode()
        ):
            raise OAuthRefused("invalid_client", "invalid client credentials")
        if not app.client_credentials:
            raise OAuthRefused("invalid_grant", "client credentials flow not enabled")
        if not app.run_as:
            raise OAuthRefused("invalid_grant", "no client credentials user enabled")
        session = self._session(tenant)
        issued_at = str(round(self.clock.timestamp() * 1000))
        signed = hmac.new(
            app.consumer_secret.encode(), f"{id_url(session)}{issued_at}".encode(), hashlib.sha256
        )
        return {
            **_common(session),
            "issued_at": issued_at,
            "signature": base64.b64encode(signed.digest()).decode(),
        }

    def _jwt_bearer(self, assertion: str) -> dict[str, str]:
        claims = _unverified(assertion)
        tenant = self._tenant(str(claims.get("iss", "")))
        _verify(assertion, tenant.identity.app)
        accepted = {
            url.rstrip("/") for url in (*self.audiences(), tenant.instance_url, *_REAL_AUDIENCES)
        }
        if str(claims.get("aud", "")).rstrip("/") not in accepted:
            raise OAuthRefused("invalid_grant", "Audience validation failed")
        self._check_expiry(claims.get("exp"))
        if claims.get("sub") not in tenant.identity.app.users:
            raise OAuthRefused("invalid_grant", "user hasn't approved this consumer")
        return _common(self._session(tenant))

    def _check_expiry(self, expires_at: object) -> None:
        """Against the clock the clients see: moving the bus past its retention is no skew."""
        if not isinstance(expires_at, int | float):
            raise OAuthRefused("invalid_grant", "invalid assertion")
        left = expires_at - (self.clock.unmoved().timestamp() + self.knobs.jwt_skew_seconds)
        if left <= 0:
            raise OAuthRefused("invalid_grant", "expired authorization code")
        if left > self.knobs.jwt_max_seconds:
            raise OAuthRefused("invalid_grant", "invalid assertion")

    def _tenant(self, consumer_key: str) -> Tenant:
        for tenant in self.tenants():
            if tenant.identity.app.consumer_key == consumer_key:
                return tenant
        raise OAuthRefused("invalid_client_id", "client identifier invalid")

    def _session(self, tenant: Tenant) -> Session:
        identity = tenant.identity
        return self.sessions.issue(
            org_id=identity.org_id,
            instance_url=tenant.instance_url,
            user_id=identity.user_id,
            username=identity.username,
            client=identity.app.consumer_key,
        )


def id_url(session: Session) -> str:
    """Identity URL; it names the host for all orgs whatever host was asked."""
    return f"https://login.salesforce.com/id/{session.org_id}/{session.user_id}"


def user_info(session: Session) -> dict[str, Any]:
    """Say what `/services/oauth2/userinfo` answers about a token's user."""
    url = session.instance_url
    return {
        "sub": id_url(session),
        "user_id": session.user_id,
        "organization_id": session.org_id,
        "preferred_username": session.username,
        "nickname": "integration",
        "name": "Integration User",
        "email": session.username,
        "email_verified": True,
        "given_name": "Integration",
        "family_name": "User",
        "zoneinfo": "Etc/UTC",
        "photos": {
            "picture": f"{url}/profilephoto/005/F",
            "thumbnail": f"{url}/profilephoto/005/T",
        },
        "profile": f"{url}/{session.user_id}",
        "picture": f"{url}/profilephoto/005/F",
        "address": {},
        "is_salesforce_integration_user": False,
        "urls": {
            "rest": f"{url}/services/data/v{{version}}/",
            "sobjects": f"{url}/services/data/v{{version}}/sobjects/",
            "custom_domain": url,
        },
        "active": True,
        "user_type": "STANDARD",
        "language": "en_US",
        "locale": "en_US",
        "utcOffset": 0,
        "is_app_installed": True,
    }


def _common(session: Session) -> dict[str, str]:
    """Give what every grant answers; none says when the token expires."""
    return {
        "access_token": session.token,
        "scope": "api id",
        "instance_url": session.instance_url,
        "id": id_url(session),
        "token_type": "Bearer",
    }


def _basic(authorization: str) -> dict[str, str]:
    """Client id and secret from HTTP Basic, where a client prefers that."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return {}
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return {}
    return {"client_id": unquote(user), "client_secret": unquote(password)}


def _unverified(assertion: str) -> dict[str, Any]:
    import jwt

    try:
        return dict(jwt.decode(assertion, options={"verify_signature": False}))
    except jwt.InvalidTokenError as error:
        raise OAuthRefused("invalid_grant", "invalid assertion") from error


def _verify(assertion: str, app: App) -> None:
    import jwt

    unchecked = {f"verify_{claim}": False for claim in ("exp", "aud", "iat", "nbf", "iss")}
    try:
        jwt.decode(assertion, app.keys.public_key_pem, algorithms=["RS256"], options=unchecked)  # type: ignore[arg-type]
    except jwt.InvalidTokenError as error:
        raise OAuthRefused("invalid_grant", "invalid assertion") from error
