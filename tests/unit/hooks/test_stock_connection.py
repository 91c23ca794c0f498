"""Connections of Airflow's own type `salesforce`: the login that their fields give, or none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.connection import ConnectionFields
from airflow_provider_sfevents.hooks.stock_connection import stock_settings
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import (
    ClientCredentials,
    JwtBearer,
    Login,
    Settings,
    SoapLogin,
    UsernamePassword,
)

if TYPE_CHECKING:
    from pathlib import Path

KEY = "-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----"
LOGIN = "https://login.salesforce.com"
SECRET = {"consumer_key": "k", "consumer_secret": "hush-2"}


@dataclass
class Stock:
    extra_dejson: dict[str, Any] = field(default_factory=dict)
    login: str | None = "u@acme.example"
    password: str | None = "hush-1"
    host: str | None = None
    port: int | None = None
    conn_id: str = "salesforce_default"


def settings_of(stock: Stock) -> Settings:
    return stock_settings(ConnectionFields(stock))


USER: dict[str, Any] = {"login_url": LOGIN, "username": "u@acme.example"}


def soap(**changes: Any) -> SoapLogin:
    return SoapLogin(**{**USER, "password": Secret("hush-1"), **changes})


def by_password(**changes: Any) -> UsernamePassword:
    secrets = {"password": Secret("hush-1"), "client_secret": Secret("hush-2")}
    return UsernamePassword(**{**USER, "client_id": "k", **secrets, **changes})


def by_key(**changes: Any) -> JwtBearer:
    return JwtBearer(**{**USER, "client_id": "k", "private_key": Secret(KEY), **changes})


@pytest.mark.parametrize(
    ("stock", "login"),
    [
        pytest.param(
            Stock({"security_token": "T", "version": "59.0"}),
            soap(security_token=Secret("T"), api_version="59.0"),
            id="security token",
        ),
        pytest.param(
            Stock({"security_token": "T", "version": 59.0, **SECRET}),
            soap(security_token=Secret("T"), api_version="59.0"),
            id="security token before consumer secret",
        ),
        pytest.param(Stock({"organization_id": "00D000000000001"}), soap(), id="trusted network"),
        pytest.param(Stock(SECRET), by_password(), id="consumer secret"),
        pytest.param(Stock({"consumer_key": "k", "private_key": KEY}), by_key(), id="private key"),
        pytest.param(
            Stock({"client_id": "k", "private_key": KEY}, password=None),
            by_key(),
            id="private key with the client id",
        ),
        pytest.param(
            Stock({**SECRET, "domain": "acme.my"}, login=None, password=None),
            ClientCredentials(
                login_url="https://acme.my.salesforce.com",
                client_id="k",
                client_secret=Secret("hush-2"),
            ),
            id="client credentials",
        ),
    ],
)
def test_what_is_filled_in_says_the_login(stock: Stock, login: Login) -> None:
    """The login follows from the fields in the order of the Salesforce provider's own hook."""
    assert settings_of(stock).login == login


@pytest.mark.parametrize(
    ("extra", "host"),
    [
        ({}, LOGIN),
        ({"domain": "test"}, "https://test.salesforce.com"),
        ({"domain": "acme.my"}, "https://acme.my.salesforce.com"),
        ({"domain": "acme.my.salesforce.com"}, "https://acme.my.salesforce.com"),
        ({"instance_url": "https://acme.my.salesforce.com/"}, "https://acme.my.salesforce.com"),
        ({"instance": "acme.my.salesforce.com"}, "https://acme.my.salesforce.com"),
        ({"domain": "test", "instance": "acme.my.salesforce.com"}, "https://test.salesforce.com"),
        ({"domain": ""}, LOGIN),
    ],
)
def test_where_it_logs_in(extra: dict[str, str], host: str) -> None:
    """The login host is that of the form's Domain, or the org's own, or the general one."""
    assert settings_of(Stock({"security_token": "T", **extra})).login.login_url == host


def test_older_names_are_read() -> None:
    """Extras with Airflow 2's prefix are read; a name without the prefix comes first."""
    prefixed = {f"extra__salesforce__{name}": value for name, value in SECRET.items()}
    assert settings_of(Stock(prefixed)).login == by_password()
    assert settings_of(Stock({**prefixed, "consumer_key": "new"})).login == by_password(
        client_id="new"
    )


def test_a_key_from_a_file(tmp_path: Path) -> None:
    """The key file is read on this machine; the error for a missing one shows no path or key."""
    file = tmp_path / "server.key"
    file.write_text(KEY)
    extra = {"consumer_key": "k", "private_key_file_path": str(file)}
    assert settings_of(Stock(extra)).login == by_key()
    file.unlink()
    with pytest.raises(ConfigurationError, match="cannot be read on this machine: No such file"):
        settings_of(Stock(extra))


def test_our_own_extras_are_read() -> None:
    """Endpoint and authorities are read from the extra of a stock connection, too."""
    settings = settings_of(
        Stock(
            {
                **SECRET,
                "pubsub_endpoint": "api.deu.pubsub.salesforce.com:443",
                "ca_file": "/ca",
                "allowed_hosts": "a.example, b.example",
            }
        )
    )
    assert (settings.endpoint, settings.ca_file) == ("api.deu.pubsub.salesforce.com:443", "/ca")
    assert settings.allowed_hosts == ("a.example", "b.example")


@pytest.mark.parametrize(
    ("stock", "said"),
    [
        pytest.param(Stock(), "make no login", id="no security token"),
        pytest.param(Stock({"client_id": "app"}), "make no login", id="client id alone"),
        pytest.param(Stock({**SECRET, "consumer_secret": ""}), "make no login", id="no secret"),
        pytest.param(
            Stock({"consumer_key": "k", "private_key": KEY}, login=None),
            "make no login",
            id="key without user",
        ),
        pytest.param(
            Stock({"security_token": "T", "version": "65.0"}), "API 65.0", id="version too new"
        ),
        pytest.param(
            Stock({"security_token": "T", "instance_url": "http://acme.my.salesforce.com"}),
            "not HTTPS",
            id="no tls",
        ),
    ],
)
def test_what_cannot_be_mapped_is_one_error(stock: Stock, said: str) -> None:
    """The error of an unusable stock connection names each login's needs, and no secret."""
    with pytest.raises(
        ConfigurationError, match=f"connection 'salesforce_default': .*{said}"
    ) as raised:
        settings_of(stock)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("proxies", ["http://user:hush@proxy", {"https": "http://u:hush@proxy"}])
def test_proxies_are_not_taken_over(caplog: pytest.LogCaptureFixture, proxies: Any) -> None:
    """A connection's proxies are ignored with a warning that does not show their address."""
    assert not settings_of(Stock({**SECRET, "proxies": proxies})).proxy
    assert "HTTPS_PROXY" in caplog.text
    assert "hush" not in caplog.text
