"""Request of the SOAP login, and the reading of its answers."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import httpx
import pytest

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    SfEventsError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import SoapLogin
from airflow_provider_sfevents.pubsub.auth.soap_client import (
    SoapAnswer,
    envelope,
    login_path,
    read_answer,
)

ORG = "00D000000000001EAA"
TOKEN = "00D000000000001!AQ.token"
PARTNER = "{urn:partner.soap.sforce.com}"


def login(*, hard: str = "hush-hush", api_version: str = "57.0") -> SoapLogin:
    return SoapLogin(
        login_url="https://login.salesforce.com",
        username="u@acme.example",
        password=Secret(hard),
        security_token=Secret("T0KEN"),
        api_version=api_version,
    )


def read(status: int, body: bytes) -> SoapAnswer:
    return read_answer(login(), httpx.Response(status, content=body))


def answer(inside: str, more: str = "") -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>{more}<soapenv:Envelope '
        'xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
        'xmlns="urn:partner.soap.sforce.com" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>'
        f"{inside}</soapenv:Body></soapenv:Envelope>"
    ).encode()


def granted(org: str = f"<organizationId>{ORG}</organizationId>", expired: str = "false") -> str:
    return (
        f"<loginResponse><result><passwordExpired>{expired}</passwordExpired>"
        "<serverUrl>https://acme.my.salesforce.com/services/Soap/u/57.0/00D000000000001</serverUrl>"
        f"<sessionId>{TOKEN}</sessionId><userId>005000000000001AAA</userId><userInfo>{org}<roleId "
        'xsi:nil="true"/>'
        "<userId>005other</userId></userInfo></result></loginResponse>"
    )


def fault(code: str, text: str) -> str:
    return (
        f"<soapenv:Fault><faultcode>sf:{code}</faultcode><faultstring>{code}: {text}</faultstring>"
        '<detail><sf:LoginFault xmlns:sf="urn:fault.partner.soap.sforce.com" '
        'xsi:type="sf:LoginFault">'
        f"<sf:exceptionCode>{code}</sf:exceptionCode><sf:exceptionMessage>{text}</sf:exceptionMessage>"
        "</sf:LoginFault></detail></soapenv:Fault>"
    )


@pytest.mark.parametrize("hard", ["a&b<c>d", "]]>", "x\"y'z", "Zürich ☃ 😀", "&amp;", " ends "])
def test_any_password_arrives_as_it_is(hard: str) -> None:
    """Characters with a meaning in XML are escaped; the security token follows the password."""
    sent = ET.fromstring(envelope(login(hard=hard)))  # noqa: S314 - made by the client
    [call] = sent.iter(f"{PARTNER}login")
    assert [(one.tag, one.text) for one in call] == [
        (f"{PARTNER}username", "u@acme.example"),
        (f"{PARTNER}password", f"{hard}T0KEN"),
    ]


def test_what_xml_cannot_carry_is_refused() -> None:
    """A control character, which XML cannot carry, is refused without showing the password."""
    with pytest.raises(ConfigurationError, match="The password holds a character") as raised:
        envelope(login(hard="hush\x07hush"))
    assert "hush" not in str(raised.value)


def test_the_version_is_in_the_path() -> None:
    """The path has version 57.0, unless the connection names another."""
    assert login_path(login()) == "/services/Soap/u/57.0/"
    assert login_path(login(api_version="62")) == "/services/Soap/u/62.0/"


@pytest.mark.parametrize(
    "org", [f"<organizationId>{ORG}</organizationId>", ""], ids=["org", "org not told"]
)
def test_a_session_is_read(org: str) -> None:
    """Token, address, org and user are each read from the first element of the name."""
    assert read(200, answer(granted(org))) == SoapAnswer(
        token=Secret(TOKEN),
        server_url="https://acme.my.salesforce.com/services/Soap/u/57.0/00D000000000001",
        org_id=ORG if org else "",
        user_id="005000000000001AAA",
    )


@pytest.mark.parametrize(
    ("code", "text", "error", "said"),
    [
        ("INVALID_LOGIN", "Invalid username, password, security token; or user locked out.", AuthenticationError, "security token"),
        ("LOGIN_MUST_USE_SECURITY_TOKEN", "x", AuthenticationError, "security_token"),
        ("INVALID_OPERATION", "SOAP API login() is disabled by default in this org.", AuthenticationError, "Any API"),
        ("UNKNOWN_CODE", "SOAP API login() is disabled by default in this org.", AuthenticationError, "Any API"),
        ("UNSUPPORTED_API_VERSION", "Invalid Api version", AuthenticationError, "api_version"),
        ("SERVER_UNAVAILABLE", "x", TransportError, "try again"),
        ("SOMETHING_NEW", "x", AuthenticationError, "login history"),
    ],
)  # fmt: skip
def test_a_fault_says_reason_and_remedy(
    code: str, text: str, error: type[SfEventsError], said: str
) -> None:
    """A fault's error has Salesforce's code and text once, the remedy, and no secret."""
    with pytest.raises(error) as raised:
        read(500, answer(fault(code, text)))
    message = str(raised.value)
    assert message.count(code) == 1
    assert text.rstrip(".") in message
    assert said in message
    assert "hush" not in message


def test_an_expired_password() -> None:
    """An expired password is an error at login, because every later call would fail."""
    with pytest.raises(AuthenticationError, match=r"password of u@acme\.example has expired"):
        read(200, answer(granted(expired="true")))


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        pytest.param(503, b"<html>away</html>", TransportError, id="away"),
        pytest.param(429, b"<html>busy</html>", TransportError, id="busy"),
        pytest.param(200, b"<html>welcome</html>", ConfigurationError, id="page"),
        pytest.param(404, b"", ConfigurationError, id="nothing"),
        pytest.param(200, answer(granted())[:-5], ConfigurationError, id="cut"),
        pytest.param(200, b"\xff\xfe\x00", ConfigurationError, id="no text"),
        pytest.param(200, b" " * 1_000_001 + answer(granted()), ConfigurationError, id="too long"),
        pytest.param(
            200,
            answer(granted(), '<!DOCTYPE x [<!ENTITY a "00D000000000001">]>'),
            ConfigurationError,
            id="entities",
        ),
        pytest.param(
            200,
            answer(granted(), '<!DOCTYPE x SYSTEM "file:///etc/passwd">'),
            ConfigurationError,
            id="external",
        ),
    ],
)
def test_what_is_no_answer(status: int, body: bytes, error: type[SfEventsError]) -> None:
    """An answer that is broken, too long, or declares a document type is not read."""
    with pytest.raises(error, match=f"HTTP {status}"):
        read(status, body)
