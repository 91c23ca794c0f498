"""Token endpoint: grants and password logins. No I/O.

Statuses and texts are Salesforce's. Source: Salesforce help, "OAuth 2.0 ... Flow for
Server-to-Server Integration", "OAuth Authorization Errors", and its pages of the username-password
and the refresh token flow; live logs.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from airflow_provider_sfevents.emulator.http.logins.userinfo import id_url

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
    from airflow_provider_sfevents.emulator.knobs import Knobs
    from airflow_provider_sfevents.emulator.state.org_identity import ConnectedApp, Tenant
    from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession, OrgSessions

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_REAL_AUDIENCES = ("https://login.salesforce.com", "https://test.salesforce.com")
_NO_ACCESS = {
    "not_approved": ("invalid_grant", "user hasn't approved this consumer"),
    "not_admin_approved": (
        "invalid_app_access",
        "user is not admin approved to access this app",
    ),
    "not_installed": ("app_not_found", "External client app is not installed in this org"),
}


class OAuthRefusedError(Exception):
    """Refused login: HTTP 400 with an error and its description."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(f"{error}: {description}")
        self.error = error
        self.description = description


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEndpoint:
    """The token endpoint of one host.

    :param tenants: orgs whose apps can log in here; called for each request, because orgs can be
        added.
    :param my_domain: the host is an org's My Domain, not the login host of all orgs.
    :param audiences: URLs that a JWT may name as audience, besides Salesforce's.
    """

    tenants: Callable[[], Sequence[Tenant]]
    my_domain: bool
    audiences: Callable[[], Sequence[str]]
    sessions: OrgSessions
    clock: EmulatorClock
    knobs: Knobs

    def answer(self, form: Mapping[str, str], authorization: str = "") -> dict[str, str]:
        """Response of the token endpoint.

        :raises OAuthRefusedError: the login is refused.
        """
        asked = {**_basic(authorization), **form}
        match form.get("grant_type", ""):
            case "client_credentials":
                return self._client_credentials(asked)
            case grant if grant == JWT_BEARER:
                return self._jwt_bearer(form.get("assertion", ""))
            case "password":
                return self._password(asked)
            case "refresh_token":
                return self._refresh_token(asked)
        raise OAuthRefusedError("unsupported_grant_type", "grant type not supported")

    def soap_session(self, username: str, password: str) -> OrgSession | None:
        """Session of a user of this host's orgs.

        None if the name or password is wrong, or the user is locked out.

        :param password: password followed by the security token.
        """
        for tenant in self.tenants():
            if self._admits(tenant, username, password):
                return self._session(tenant, client="")
        return None

    def _client_credentials(self, form: Mapping[str, str]) -> dict[str, str]:
        if not self.my_domain and not self.knobs.client_credentials_on_login_host:
            raise OAuthRefusedError("invalid_grant", "request not supported on this domain")
        tenant = self._tenant(form.get("client_id", ""))
        _check_secret(form, tenant.identity.app)
        if self.knobs.client_credentials_flow == "disabled":
            raise OAuthRefusedError("invalid_grant", "client credentials flow not enabled")
        if self.knobs.client_credentials_flow == "no_user":
            raise OAuthRefusedError("invalid_grant", "no client credentials user enabled")
        return self._signed(tenant, scope=True)

    def _password(self, form: Mapping[str, str]) -> dict[str, str]:
        """Answer the username-password grant, without a scope."""
        tenant = self._tenant(form.get("client_id", ""))
        _check_secret(form, tenant.identity.app)
        name, password = form.get("username", ""), form.get("password", "")
        if not self.knobs.password_flow or not self._admits(tenant, name, password):
            raise OAuthRefusedError("invalid_grant", "authentication failure")
        return self._signed(tenant, scope=False)

    def _refresh_token(self, form: Mapping[str, str]) -> dict[str, str]:
        """Answer the refresh token grant; apps may omit the secret."""
        tenant = self._tenant(form.get("client_id", ""))
        app = tenant.identity.app
        if self.knobs.refresh_needs_secret or form.get("client_secret"):
            _check_secret(form, app)
        same = hmac.compare_digest(
            form.get("refresh_token", "").encode(), app.refresh_token.encode()
        )
        if not same or self.sessions.is_revoked(app.refresh_token):
            raise OAuthRefusedError("invalid_grant", "expired access/refresh token")
        return self._signed(tenant, scope=True)

    def _jwt_bearer(self, assertion: str) -> dict[str, str]:
        claims = _unverified(assertion)
        tenant = self._tenant(str(claims.get("iss", "")))
        _verify(assertion, tenant.identity.app)
        accepted = {
            url.rstrip("/") for url in (*self.audiences(), tenant.instance_url, *_REAL_AUDIENCES)
        }
        if str(claims.get("aud", "")).rstrip("/") not in accepted:
            raise OAuthRefusedError("invalid_grant", "Audience validation failed")
        self._check_expiry(claims.get("exp"))
        if claims.get("sub") not in tenant.identity.app.users:
            raise OAuthRefusedError("invalid_grant", "user hasn't approved this consumer")
        return _common(self._session(tenant))

    def _check_expiry(self, expires_at: object) -> None:
        """Check `exp` by the clock that clients see.

        Moving the bus past its retention is no clock skew.
        """
        if not isinstance(expires_at, int | float):
            raise OAuthRefusedError("invalid_grant", "invalid assertion")
        left = expires_at - (self.clock.unmoved().timestamp() + self.knobs.jwt_skew_seconds)
        if left <= 0:
            raise OAuthRefusedError("invalid_grant", "expired authorization code")
        if left > self.knobs.jwt_max_seconds:
            raise OAuthRefusedError("invalid_grant", "invalid assertion")

    def _admits(self, tenant: Tenant, username: str, password: str) -> bool:
        known = tenant.identity.admits(username, password)
        return known and not self.sessions.is_locked_out(username)

    def _tenant(self, consumer_key: str) -> Tenant:
        """Org of a connected app, if its user may use the app."""
        for tenant in self.tenants():
            if tenant.identity.app.consumer_key == consumer_key:
                if refused := _NO_ACCESS.get(self.knobs.app_access):
                    raise OAuthRefusedError(*refused)
                return tenant
        raise OAuthRefusedError("invalid_client_id", "client identifier invalid")

    def _signed(self, tenant: Tenant, *, scope: bool) -> dict[str, str]:
        """Response with the time of issue and a signature."""
        answer = _common(self._session(tenant))
        if not scope:
            del answer["scope"]
        issued_at = str(round(self.clock.timestamp() * 1000))
        secret = tenant.identity.app.consumer_secret
        signed = hmac.new(
            secret.encode(), f"{answer['id']}{issued_at}".encode(), hashlib.sha256
        ).digest()
        signature = base64.b64encode(signed).decode()
        return {**answer, "issued_at": issued_at, "signature": signature}

    def _session(self, tenant: Tenant, *, client: str | None = None) -> OrgSession:
        """Issue a token, by default to the org's connected app."""
        identity = tenant.identity
        return self.sessions.issue(
            org_id=identity.org_id,
            instance_url=tenant.instance_url,
            user_id=identity.user_id,
            username=identity.username,
            client=identity.app.consumer_key if client is None else client,
        )


def _common(session: OrgSession) -> dict[str, str]:
    """Fields that every grant returns; none states the expiry of the token."""
    return {
        "access_token": session.token,
        "scope": "api id",
        "instance_url": session.instance_url,
        "id": id_url(session),
        "token_type": "Bearer",
    }


def _check_secret(form: Mapping[str, str], app: ConnectedApp) -> None:
    given = form.get("client_secret", "")
    if not hmac.compare_digest(given.encode(), app.consumer_secret.encode()):
        raise OAuthRefusedError("invalid_client", "invalid client credentials")


def _basic(authorization: str) -> dict[str, str]:
    """Client id and secret from HTTP Basic authentication, if used."""
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return {}
    try:
        user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        return {}
    return {"client_id": unquote(user), "client_secret": unquote(password)}


def _unverified(assertion: str) -> dict[str, Any]:
    import jwt

    try:
        return dict(jwt.decode(assertion, options={"verify_signature": False}))
    except jwt.InvalidTokenError as error:
        raise OAuthRefusedError("invalid_grant", "invalid assertion") from error


def _verify(assertion: str, app: ConnectedApp) -> None:
    import jwt

    options: Any = {f"verify_{claim}": False for claim in ("exp", "aud", "iat", "nbf", "iss")}
    try:
        jwt.decode(assertion, app.keys.public_key_pem, algorithms=["RS256"], options=options)
    except jwt.InvalidTokenError as error:
        raise OAuthRefusedError("invalid_grant", "invalid assertion") from error
