"""SOAP login() calls are parsed, and API versions are checked."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.emulator.http.logins import soap_messages
from airflow_provider_sfevents.emulator.knobs import Knobs

ENVELOPE = (
    '<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Header><x/></e:Header>'
    "<e:Body>{call}</e:Body></e:Envelope>"
)


def _call(name: str, inside: str, namespace: str = "urn:partner.soap.sforce.com") -> bytes:
    return ENVELOPE.format(call=f'<p:{name} xmlns:p="{namespace}">{inside}</p:{name}>').encode()


def test_any_prefix_and_cdata() -> None:
    """Any prefix is accepted, and a password is taken verbatim with markup and spaces."""
    inside = "<p:username> a@b.c </p:username><p:password><![CDATA[ <&]]> x</p:password>"
    assert soap_messages.read_login(_call("login", inside)) == soap_messages.LoginCall(
        "a@b.c", " <& x"
    )
    assert soap_messages.read_login(_call("login", "")) == soap_messages.LoginCall("", "")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not well-formed"),
        (b"<a>", "not well-formed"),
        (b"<a/>", "not a SOAP envelope"),
        (ENVELOPE.format(call="").encode(), "not a SOAP envelope"),
        (
            _call("query", ""),
            "No operation available for request {urn:partner.soap.sforce.com}query",
        ),
        (_call("login", "", "urn:enterprise.soap.sforce.com"), "No operation available"),
    ],
)
def test_what_is_no_login(body: bytes, why: str) -> None:
    """A request that is no login() call is refused as the client's fault."""
    with pytest.raises(soap_messages.SoapLoginRefusedError, match=why) as refused:
        soap_messages.read_login(body)
    assert "<faultcode>soapenv:Client</faultcode>" in soap_messages.fault(refused.value)


def test_an_entity_bomb_is_refused() -> None:
    """Expanding XML entities are refused."""
    levels = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<!DOCTYPE x [<!ENTITY a0 "0123456789">{levels}]>' + _call("login", "&a9;").decode()
    with pytest.raises(soap_messages.SoapLoginRefusedError, match="not well-formed"):
        soap_messages.read_login(bomb.encode())


def test_versions() -> None:
    """Versions 31.0 to 64.0 have login(); others have another fault than a disabled login()."""
    for version in ("31.0", "57.0", "64.0"):
        soap_messages.check_version(version, Knobs())
    for version in ("30.0", "65.0", "64.1", ""):
        with pytest.raises(soap_messages.SoapLoginRefusedError, match="UNSUPPORTED_API_VERSION"):
            soap_messages.check_version(version, Knobs())
    with pytest.raises(soap_messages.SoapLoginRefusedError, match="INVALID_OPERATION"):
        soap_messages.check_version("64.0", Knobs(soap_login=False))
