from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_sfevents.client import Client
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.connection import (
    ConnectionFields,
    check_extra,
    pem,
    settings_from,
)
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

KEY = "-----BEGIN PRIVATE KEY-----\nMIIB\nAgEA\n-----END PRIVATE KEY-----\n"


@dataclass
class FakeConnection:
    conn_id: str = "sfevents_default"
    host: str | None = "https://acme.my.salesforce.com"
    login: str | None = "key"
    password: str | None = "hush-hush"
    port: int | None = None
    extra_dejson: dict[str, Any] = field(default_factory=dict)


def settings_of(connection: FakeConnection) -> Settings:
    return settings_from(ConnectionFields(connection))


def test_client_credentials_are_the_default() -> None:
    """A connection with only host, login and password uses client credentials over TLS."""
    settings = settings_of(FakeConnection())
    assert settings.login == ClientCredentials(
        login_url="https://acme.my.salesforce.com",
        client_id="key",
        client_secret=Secret("hush-hush"),
    )
    assert (settings.endpoint, settings.plaintext) == ("api.pubsub.salesforce.com:7443", False)


@pytest.mark.parametrize(
    ("port", "address", "endpoint"),
    [
        (None, "", "api.pubsub.salesforce.com:7443"),
        (0, "", "api.pubsub.salesforce.com:7443"),
        (443, "", "api.pubsub.salesforce.com:443"),
        (None, "api.deu.pubsub.salesforce.com", "api.deu.pubsub.salesforce.com:7443"),
        (443, "api.deu.pubsub.salesforce.com", "api.deu.pubsub.salesforce.com:443"),
        (None, "api.deu.pubsub.salesforce.com:443", "api.deu.pubsub.salesforce.com:443"),
        (443, "api.deu.pubsub.salesforce.com:443", "api.deu.pubsub.salesforce.com:443"),
        (7443, "[::1]", "[::1]:7443"),
    ],
)
def test_the_port_is_that_of_the_pubsub_api(port: int | None, address: str, endpoint: str) -> None:
    """The connection's port is the endpoint's; an empty port or 0 is 7443."""
    given = FakeConnection(port=port, extra_dejson={"pubsub_endpoint": address})
    assert settings_of(given).endpoint == endpoint


def test_a_host_without_scheme_is_https() -> None:
    """A host without a scheme becomes an https URL."""
    login = settings_of(FakeConnection(host="acme.my.salesforce.com")).login
    assert login.login_url == "https://acme.my.salesforce.com"


def test_jwt_bearer() -> None:
    """A JWT bearer connection keeps the line breaks of the key from the form."""
    extra = {
        "auth": "jwt_bearer",
        "username": "a@b.c",
        "private_key": KEY,
        "jwt_audience": "https://login.salesforce.com",
    }
    login = settings_of(FakeConnection(extra_dejson=extra)).login
    assert isinstance(login, JwtBearer)
    assert (login.username, login.private_key.reveal().strip(), login.audience) == (
        "a@b.c",
        KEY.strip(),
        "https://login.salesforce.com",
    )


def test_session_token_takes_its_instance_from_the_host() -> None:
    """A session token needs no instance URL if the host is the org's own."""
    login = settings_of(
        FakeConnection(extra_dejson={"auth": "session", "session_token": "00Dx!y"})
    ).login
    assert login == SessionToken(
        token=Secret("00Dx!y"), instance_url="https://acme.my.salesforce.com"
    )


def test_refresh_token() -> None:
    """A refresh token is used with the consumer secret if there is one."""
    extra = {"auth": "refresh_token", "refresh_token": " 5Aep861 "}
    with_secret = settings_of(FakeConnection(extra_dejson=extra)).login
    assert with_secret == RefreshToken(
        login_url="https://acme.my.salesforce.com",
        client_id="key",
        client_secret=Secret("hush-hush"),
        refresh_token=Secret("5Aep861"),
    )
    without = settings_of(FakeConnection(password=None, extra_dejson=extra)).login
    assert isinstance(without, RefreshToken)
    assert without.client_secret == Secret()


def test_username_password() -> None:
    """The user's password is used unchanged, with blanks at its ends."""
    extra = {
        "auth": "password",
        "username": "a@b.c",
        "user_password": " pass word ",
        "security_token": "T0KEN",
    }
    assert settings_of(FakeConnection(extra_dejson=extra)).login == UsernamePassword(
        login_url="https://acme.my.salesforce.com",
        client_id="key",
        client_secret=Secret("hush-hush"),
        username="a@b.c",
        password=Secret(" pass word "),
        security_token=Secret("T0KEN"),
    )


def test_soap() -> None:
    """In a SOAP connection the login and password are the user's own."""
    connection = FakeConnection(login="a@b.c", extra_dejson={"auth": "soap", "api_version": "62"})
    assert settings_of(connection).login == SoapLogin(
        login_url="https://acme.my.salesforce.com",
        username="a@b.c",
        password=Secret("hush-hush"),
        api_version="62.0",
    )


@pytest.mark.parametrize(
    "mangled",
    [KEY, KEY.replace("\n", " ").strip(), KEY.replace("\n", "\\n"), KEY.strip()],
    ids=["as it is", "spaces", "escaped", "without its last line break"],
)
def test_a_mangled_key_is_made_whole(mangled: str) -> None:
    r"""A PEM whose line breaks became spaces or `\n` is restored."""
    assert pem(Secret(mangled)).reveal().strip() == KEY.strip()


@pytest.mark.parametrize(
    ("connection", "says"),
    [
        (FakeConnection(host=None), "no My Domain URL. Give it as https:"),
        (FakeConnection(host="http://acme.my.salesforce.com"), "is not HTTPS"),
        (FakeConnection(login=" "), "no consumer key"),
        (FakeConnection(password=None), "no consumer secret"),
        (
            FakeConnection(extra_dejson={"auth": "passwort"}),
            "unknown login 'passwort'.*client_credentials, jwt_bearer, refresh_token, password, "
            "soap, session",
        ),
        (FakeConnection(extra_dejson={"auth": "refresh_token"}), "no refresh token"),
        (FakeConnection(extra_dejson={"auth": "password"}), "no user name"),
        (
            FakeConnection(extra_dejson={"auth": "password", "username": "a@b.c"}),
            "no user password",
        ),
        (FakeConnection(password=None, extra_dejson={"auth": "soap"}), "no password"),
        (
            FakeConnection(extra_dejson={"auth": "soap", "api_version": "65.0"}),
            "does not exist in API 65.0",
        ),
        (FakeConnection(extra_dejson={"auth": "jwt_bearer"}), "no user name"),
        (FakeConnection(extra_dejson={"auth": "session"}), "no session token"),
        (FakeConnection(extra_dejson={"plaintext": True}), "plaintext is set.*not on this machine"),
        (
            FakeConnection(extra_dejson={"plaintext": "perhaps"}),
            "`plaintext` must be true or false, not 'perhaps'",
        ),
        (
            FakeConnection(extra_dejson={"pubsub_endpoint": "https://api"}),
            "endpoint 'https://api:7443' is not of the form host:port",
        ),
        (
            FakeConnection(port=7443, extra_dejson={"pubsub_endpoint": "api:443"}),
            "port is 7443, and the Pub/Sub API endpoint 'api:443' names 443. Leave one of them out",
        ),
        (FakeConnection(port=70000), "port 70000 is out of range. Give 7443"),
        (FakeConnection(extra_dejson={"ca_file": 7}), "`ca_file` must be text, not int"),
    ],
)
def test_what_cannot_work_is_named(connection: FakeConnection, says: str) -> None:
    """The error of wrong settings names connection, field and remedy, and never the secret."""
    with pytest.raises(
        ConfigurationError, match=rf"connection 'sfevents_default': .*{says}"
    ) as raised:
        settings_of(connection)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("auth=session hush-hush", "its extra is no JSON"),
        ('{"auth": "session" "hush-hush"}', "its extra is no JSON"),
        ('["hush-hush"]', r"JSON, but no object \(list\)"),
        ('"hush-hush"', r"JSON, but no object \(str\)"),
    ],
)
def test_an_extra_that_is_no_object(extra: str, said: str) -> None:
    """An extra that is no object is an error that does not show the extra."""
    with pytest.raises(ConfigurationError, match=rf"^connection 'mine': .*{said}") as raised:
        check_extra("mine", Secret(extra))
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize("extra", [None, "", "{}", '{"auth": "session"}'])
def test_an_extra_that_is_one(extra: str | None) -> None:
    """An extra that is an object, or missing, is accepted."""
    check_extra("mine", Secret(extra or ""))


@pytest.mark.parametrize(
    ("extra", "seconds"), [(None, 10.0), ("", 10.0), (30, 30.0), ("2.5", 2.5), ("None", None)]
)
def test_the_connection_timeout_of_the_client(extra: Any, seconds: float | None) -> None:
    """The extra is a number of seconds, or `none` for no limit; `Client` takes it from there."""
    settings = settings_of(FakeConnection(extra_dejson={"connection_timeout": extra}))
    assert Client(settings).connection_timeout == seconds
    assert Client(settings, connection_timeout=7).connection_timeout == 7


@pytest.mark.parametrize("name", ["connection_timeout", "answer_timeout"])
@pytest.mark.parametrize("extra", ["soon", 0, -1])
def test_a_wrong_timeout_is_refused(name: str, extra: Any) -> None:
    """The error names the connection, the extra and the value."""
    with pytest.raises(ConfigurationError, match=rf"sfevents_default.*{name}.*{extra}"):
        settings_of(FakeConnection(extra_dejson={name: extra}))


@pytest.mark.parametrize(("extra", "seconds"), [(None, 30.0), ("", 30.0), ("90", 90.0)])
def test_the_answer_timeout_of_the_connection(extra: Any, seconds: float) -> None:
    """Without the extra each kind of request has its usual time."""
    settings = settings_of(FakeConnection(extra_dejson={"answer_timeout": extra}))
    assert settings.answer_seconds(30.0) == seconds


def test_the_proxy_of_the_connection() -> None:
    """The extra `proxies`, whose name Airflow masks, may hold a password; no error shows it."""
    settings = settings_of(
        FakeConnection(extra_dejson={"proxies": "http://me:hush@proxy.example:1"})
    )
    assert settings.proxy == Secret("http://me:hush@proxy.example:1")
    assert "hush" not in repr(settings)
    for wrong in ("me:hush@proxy:1", "https://me:hush@proxy", "http://me:hush@a b"):
        with pytest.raises(ConfigurationError, match=r"sfevents_default.*proxy") as refused:
            settings_of(FakeConnection(extra_dejson={"proxies": wrong}))
        assert "hush" not in str(refused.value)
