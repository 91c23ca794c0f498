"""Checks of a connection's settings, and secrets that never show."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import (
    ClientCredentials,
    JwtBearer,
    RefreshToken,
    SessionToken,
    Settings,
    SoapLogin,
    UsernamePassword,
)

SECRET = ClientCredentials(
    login_url="https://acme.my.salesforce.com", client_id="key", client_secret=Secret("s3cret-1")
)
KEY = JwtBearer(
    login_url="https://login.salesforce.com",
    client_id="key",
    username="u@acme.example",
    private_key=Secret("s3cret-2"),
    passphrase=Secret("s3cret-3"),
)
TOKEN = SessionToken(token=Secret("s3cret-4"), instance_url="https://acme.my.salesforce.com")


REFRESH = RefreshToken(
    login_url="https://login.salesforce.com",
    client_id="key",
    client_secret=Secret("s3cret-5"),
    refresh_token=Secret("s3cret-6"),
)
PASSWORD = UsernamePassword(
    login_url="https://login.salesforce.com",
    client_id="key",
    client_secret=Secret("s3cret-7"),
    username="u@acme.example",
    password=Secret("s3cret-8"),
    security_token=Secret("s3cret-9"),
)
SOAP = SoapLogin(
    login_url="https://login.salesforce.com",
    username="u@acme.example",
    password=Secret("s3cret-8"),
    security_token=Secret("s3cret-9"),
)


@pytest.mark.parametrize("login", [SECRET, KEY, TOKEN, REFRESH, PASSWORD, SOAP], ids=type)
def test_secrets_do_not_show(login: Any) -> None:
    """Neither `repr` nor format of settings shows a secret."""
    assert "s3cret" not in repr(Settings(login=login)) + str(login)


def test_equal_settings_are_one_key() -> None:
    """Equal settings are one key of the session cache; any difference makes another one."""
    one = Settings(login=SECRET)
    assert (
        len(
            {
                one,
                Settings(login=replace(SECRET)),
                Settings(login=replace(SECRET, client_secret=Secret("x"))),
            }
        )
        == 2
    )


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://acme.my.salesforce.com", "https://acme.my.salesforce.com"),
        ("https://acme.my.salesforce.com/", "https://acme.my.salesforce.com"),
        (" https://acme.my.salesforce.com/lightning/page?x=1 ", "https://acme.my.salesforce.com"),
        ("http://localhost:8080", "http://localhost:8080"),
        ("http://127.0.0.1:1", "http://127.0.0.1:1"),
        ("http://[::1]:1/x", "http://[::1]:1"),
    ],
)
def test_a_url_is_kept_as_scheme_and_host(url: str, kept: str) -> None:
    """A URL with a path, as copied from a browser, is kept as scheme and host."""
    assert replace(SECRET, login_url=url).login_url == kept


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda: replace(SECRET, login_url=""), "no My Domain URL"),
        (lambda: replace(SECRET, login_url="acme.my.salesforce.com"), "https://<my domain>"),
        (lambda: replace(SECRET, login_url="ftp://acme.my.salesforce.com"), "no URL"),
        (lambda: replace(SECRET, login_url="https://acme:99999999"), "no URL"),
        (lambda: replace(SECRET, login_url="http://acme.my.salesforce.com"), "not HTTPS"),
        (lambda: replace(SECRET, login_url="http://127.0.0.1.evil.example"), "not HTTPS"),
        (lambda: replace(SECRET, login_url="https://me:pw@acme.example"), "Leave them out"),
        (lambda: replace(SECRET, login_url="https://@acme.example"), "Leave them out"),
        (lambda: replace(SECRET, login_url="https://me:p#w@acme.example"), "The .* holds a user"),
        (lambda: replace(SECRET, login_url="me:pw@acme.example"), "The .* holds a user"),
        (lambda: replace(SECRET, login_url="https://acme.example\\@salesforce.com"), "Leave them"),
        (lambda: replace(SECRET, login_url="https://acme.example\\.salesforce.com"), "no URL"),
        (lambda: replace(SECRET, login_url="https://acme example.com"), "no URL"),
        (lambda: replace(SECRET, client_id=" "), "consumer key"),
        (lambda: replace(SECRET, client_secret=Secret("")), "consumer secret"),
        (lambda: replace(KEY, username=""), "no user name"),
        (lambda: replace(KEY, private_key=Secret("")), "private key"),
        (lambda: replace(TOKEN, token=Secret("")), "session token"),
        (lambda: replace(TOKEN, token=Secret("s3cret\n4")), "session token holds a line break"),
        (lambda: replace(TOKEN, instance_url="x"), "instance URL"),
        (lambda: Settings(login=SECRET, endpoint=""), "host:port"),
        (lambda: Settings(login=SECRET, endpoint="api.pubsub.salesforce.com"), "host:port"),
        (
            lambda: Settings(login=SECRET, endpoint="https://api.pubsub.salesforce.com:7443"),
            "host:port",
        ),
        (lambda: Settings(login=SECRET, endpoint="api.pubsub.salesforce.com:7443/x"), "host:port"),
        (lambda: Settings(login=SECRET, endpoint="u@host:7443"), "host:port"),
        (lambda: Settings(login=SECRET, endpoint="host:0"), "host:port"),
        (lambda: Settings(login=SECRET, plaintext=True), "readable by anyone"),
    ],
)
def test_settings_that_cannot_work(change: Any, said: str) -> None:
    """Wrong settings are refused when made; the message has fault and remedy, and no secret."""
    with pytest.raises(ConfigurationError, match=said) as raised:
        change()
    assert "pw" not in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "[::1]"])
def test_plaintext_to_this_machine(host: str) -> None:
    """Plaintext is allowed to this machine, for the emulator or a proxy that adds TLS."""
    assert Settings(login=SECRET, endpoint=f"{host}:7011", plaintext=True).endpoint_is_local


@pytest.mark.parametrize(
    ("login", "change", "missing"),
    [
        (SECRET, "client_id", "consumer key"),
        (SECRET, "client_secret", "consumer secret"),
        (KEY, "username", "user name"),
        (KEY, "private_key", "private key"),
        (REFRESH, "client_id", "consumer key"),
        (REFRESH, "refresh_token", "refresh token"),
        (PASSWORD, "client_id", "consumer key"),
        (PASSWORD, "client_secret", "consumer secret"),
        (PASSWORD, "username", "user name"),
        (PASSWORD, "password", "user password"),
        (SOAP, "username", "user name"),
        (SOAP, "password", "password"),
        (TOKEN, "token", "session token"),
    ],
)
def test_what_a_login_cannot_do_without(login: Any, change: str, missing: str) -> None:
    """A login that lacks a part is refused before any request, and the part is named."""
    blank = Secret(" ") if isinstance(getattr(login, change), Secret) else " "
    with pytest.raises(ConfigurationError, match=f"The connection has no {missing}"):
        replace(login, **{change: blank})


HOME = replace(SECRET, login_url="https://login.acme.example:8443")


@pytest.mark.parametrize(
    ("url", "kept"),
    [
        ("https://acme.my.salesforce.com/services", "https://acme.my.salesforce.com"),
        ("https://a--dev.sandbox.my.salesforce.com", "https://a--dev.sandbox.my.salesforce.com"),
        ("https://NA85.Salesforce.Com", "https://NA85.Salesforce.Com"),
        ("https://acme.my.salesforce.com.", "https://acme.my.salesforce.com."),
        ("https://acme.my.salesforce.mil", "https://acme.my.salesforce.mil"),
        ("https://acme.my.sfcrmproducts.cn", "https://acme.my.sfcrmproducts.cn"),
        ("https://login.acme.example", "https://login.acme.example"),
        ("https://gateway.acme.example:1", "https://gateway.acme.example:1"),
    ],
)  # fmt: skip
def test_a_token_goes_to_known_hosts(url: str, kept: str) -> None:
    """A token is sent to the login's host, Salesforce's domains and allowed hosts."""
    settings = Settings(login=HOME, allowed_hosts=("Gateway.acme.example",))
    assert settings.instance_url(url) == kept


@pytest.mark.parametrize(
    "url",
    [
        "https://acme.example",
        "https://salesforce.com.evil.example",
        "https://evilsalesforce.com",
        "https://salesforce.com",
        "https://my.salesforce.com.evil.example",
        "https://other.acme.example",
        "https://sub.gateway.acme.example",
        "http://127.0.0.1:8080",
        "https://[::1]",
    ],
)
def test_a_token_goes_nowhere_else(url: str) -> None:
    """Another host in a login's answer is refused, with the setting that would allow it."""
    settings = Settings(login=HOME, allowed_hosts=("gateway.acme.example",))
    with pytest.raises(ConfigurationError, match="The token is not sent there") as raised:
        settings.instance_url(url)
    assert f"at {url}." in str(raised.value)
    assert "to allowed_hosts" in str(raised.value)


@pytest.mark.parametrize("name", ["https://x.example", "x.example:443", "*.x.example", "x/y", ""])
def test_allowed_hosts_are_names(name: str) -> None:
    """A URL, a port or a pattern in `allowed_hosts` is refused, because it would never match."""
    with pytest.raises(ConfigurationError, match="no host name"):
        Settings(login=HOME, allowed_hosts=("gateway.acme.example", name))


@pytest.mark.parametrize(
    ("given", "kept"), [("57.0", "57.0"), ("31", "31.0"), ("64.0", "64.0"), (" v62.0 ", "62.0")]
)
def test_versions_with_a_soap_login(given: str, kept: str) -> None:
    """SOAP login takes versions 31.0 to 64.0, in every spelling."""
    assert replace(SOAP, api_version=given).api_version == kept


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("65.0", "does not exist in API 65.0.*Summer '27.*client credentials"),
        ("70", "does not exist in API 70.0"),
        ("30.0", "retired"),
        ("newest", "'newest' is not valid"),
        ("57.1", "'57.1' is not valid"),
    ],
)
def test_versions_without_a_soap_login(given: str, said: str) -> None:
    """A version without SOAP login is refused before a request, with the reason and the remedy."""
    with pytest.raises(ConfigurationError, match=said):
        replace(SOAP, api_version=given)
