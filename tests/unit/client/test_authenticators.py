"""Credentials and the logins that they make."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.client import (
    Client,
    ClientCredentials,
    PasswordAuthenticator,
    RefreshTokenAuthenticator,
    SalesforceStreamingClient,
    Secret,
)
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.auth.settings import RefreshToken, Settings, UsernamePassword

APP: dict[str, Any] = {"consumer_key": "key", "consumer_secret": "secret"}
USER: dict[str, Any] = {**APP, "username": "user", "password": "word"}


@pytest.mark.parametrize(
    ("sandbox", "url"),
    [(False, "https://login.salesforce.com"), (True, "https://test.salesforce.com")],
)
def test_sandbox_chooses_the_login_host(sandbox: bool, url: str) -> None:
    """`sandbox=True` logs in at test.salesforce.com, otherwise at login.salesforce.com."""
    assert SalesforceStreamingClient(**USER, sandbox=sandbox).settings.login.login_url == url
    assert PasswordAuthenticator(**USER, sandbox=sandbox).login().login_url == url
    token = RefreshTokenAuthenticator(**APP, refresh_token="token", sandbox=sandbox)
    assert token.login().login_url == url


def test_the_clients_four_values_are_a_password_login() -> None:
    """`SalesforceStreamingClient` is `Client` with a `PasswordAuthenticator`."""
    login = SalesforceStreamingClient(**USER).settings.login
    assert login == Client(PasswordAuthenticator(**USER)).settings.login
    assert login == UsernamePassword(
        login_url="https://login.salesforce.com",
        client_id="key",
        client_secret=Secret("secret"),
        username="user",
        password=Secret("word"),
    )


def test_a_refresh_token_is_a_refresh_token_login() -> None:
    """`RefreshTokenAuthenticator` makes the package's login by refresh token."""
    found = Client(RefreshTokenAuthenticator(**APP, refresh_token="token")).settings.login
    assert isinstance(found, RefreshToken)
    assert found.refresh_token == Secret("token")


def test_the_packages_other_logins_and_settings_are_taken() -> None:
    """A login of the package, or complete settings, may stand in place of an authenticator."""
    login = ClientCredentials(
        login_url="https://acme.my.salesforce.com", client_id="k", client_secret=Secret("s")
    )
    settings = Settings(login=login, endpoint="api.deu.pubsub.salesforce.com:7443")
    assert Client(login).settings == Settings(login=login)
    assert Client(settings).settings is settings


@pytest.mark.parametrize("value", ["", None], ids=["empty", "unset"])
def test_a_missing_value_is_refused_when_the_client_is_made(value: Any) -> None:
    """A value that is empty, or of an unset environment variable, is named."""
    with pytest.raises(ConfigurationError, match="consumer secret"):
        SalesforceStreamingClient(**{**USER, "consumer_secret": value})


def test_an_unknown_transport_is_refused() -> None:
    """`transport` is one of the two APIs."""
    with pytest.raises(ConfigurationError, match="'pubsub' or 'streaming'"):
        Client(PasswordAuthenticator(**USER), transport="cometd")


def test_an_unknown_storage_policy_is_refused() -> None:
    """Markers would else never be stored."""
    policy: Any = "automatic"
    with pytest.raises(ConfigurationError, match=r"'automatic' is unknown. Give one of .*MANUAL"):
        Client(PasswordAuthenticator(**USER), replay_storage_policy=policy)
