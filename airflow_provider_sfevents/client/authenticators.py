"""Authenticators: a user's credentials in the words of `aiosfstream`, and the login they make."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow_provider_sfevents.pubsub.auth.secret import NO_SECRET, Secret
from airflow_provider_sfevents.pubsub.auth.settings import (
    ClientCredentials,
    JwtBearer,
    Login,
    RefreshToken,
    SessionToken,
    Settings,
    SoapLogin,
    UsernamePassword,
)

if TYPE_CHECKING:
    from typing import Any

PRODUCTION_URL = "https://login.salesforce.com"
SANDBOX_URL = "https://test.salesforce.com"
_LOGINS = (
    ClientCredentials,
    JwtBearer,
    RefreshToken,
    UsernamePassword,
    SoapLogin,
    SessionToken,
)


class Authenticator(Protocol):
    """Credentials that make a login."""

    def login(self) -> Login:
        """Return the login.

        :raises ConfigurationError: a value is missing.
        """


class PasswordAuthenticator:
    """OAuth username-password login.

    :param password: the user's password, with the security token behind it where the org asks for
        one.
    :param sandbox: log in at test.salesforce.com.
    :param login_url: another host, such as the org's My Domain.
    """

    def __init__(
        self,
        consumer_key: str,
        consumer_secret: str,
        username: str,
        password: str,
        *,
        sandbox: bool = False,
        login_url: str = "",
    ) -> None:
        self._login_url = login_url_of(login_url, sandbox=sandbox)
        self._consumer_key = consumer_key
        self._consumer_secret = Secret(consumer_secret)
        self._username = username
        self._password = Secret(password)

    def login(self) -> UsernamePassword:
        return UsernamePassword(
            login_url=self._login_url,
            client_id=self._consumer_key,
            client_secret=self._consumer_secret,
            username=self._username,
            password=self._password,
            security_token=NO_SECRET,
        )


class RefreshTokenAuthenticator:
    """OAuth refresh token login.

    :param sandbox: log in at test.salesforce.com.
    :param login_url: another host, such as the org's My Domain.
    """

    def __init__(
        self,
        consumer_key: str,
        consumer_secret: str,
        refresh_token: str,
        *,
        sandbox: bool = False,
        login_url: str = "",
    ) -> None:
        self._login_url = login_url_of(login_url, sandbox=sandbox)
        self._consumer_key = consumer_key
        self._consumer_secret = Secret(consumer_secret)
        self._refresh_token = Secret(refresh_token)

    def login(self) -> RefreshToken:
        return RefreshToken(
            login_url=self._login_url,
            client_id=self._consumer_key,
            client_secret=self._consumer_secret,
            refresh_token=self._refresh_token,
        )


def login_url_of(login_url: str, *, sandbox: bool) -> str:
    """Return the host of the login: the given one, otherwise Salesforce's for the kind of org."""
    return login_url or (SANDBOX_URL if sandbox else PRODUCTION_URL)


def settings_of(credentials: Authenticator | Login | Settings, **settings: Any) -> Settings:
    """Return the settings of the client.

    :param credentials: an authenticator, one of the package's logins, or complete settings.
    :param settings: further settings, by their names in `Settings`.
    :raises ConfigurationError: a value is missing or wrong.
    """
    if isinstance(credentials, Settings):
        return credentials
    login = credentials if isinstance(credentials, _LOGINS) else credentials.login()
    return Settings(login=login, **settings)
