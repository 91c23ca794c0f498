"""SOAP login() over HTTP, as its remaining clients call and parse it."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen
from xml.sax.saxutils import escape

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs

PYTHON = (
    '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
    'xmlns:urn="urn:partner.soap.sforce.com"><soapenv:Body><urn:login><urn:username><![CDATA[{name}]]></urn:username>'
    "<urn:password><![CDATA[{password}]]></urn:password></urn:login></soapenv:Body></soapenv:Envelope>"
)
NODE = (
    '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/"><se:Header/><se:Body>'
    '<login xmlns="urn:partner.soap.sforce.com"><username>{name}</username><password>{password}</password></login>'
    "</se:Body></se:Envelope>"
)
INVALID = "INVALID_LOGIN: Invalid username, password, security token; or user locked out."


class Said(NamedTuple):
    """HTTP answer of login()."""

    status: int
    text: str

    def value(self, tag: str) -> str:
        """Content of a tag without prefix or attributes, as by regular expression."""
        found = re.search(f"<{tag}>([^<]+)</{tag}>", self.text)
        assert found, self.text
        return found[1]

    @property
    def fault(self) -> tuple[str, str]:
        """Code and text of a fault."""
        return self.value("faultcode"), self.value("faultstring")


def _post(url: str, body: str) -> Said:
    headers = {"content-type": "text/xml", "SOAPAction": "Login"}
    request = Request(url, data=body.encode(), headers=headers)  # noqa: S310
    try:
        with urlopen(request, timeout=10) as answer:  # noqa: S310
            return Said(answer.status, answer.read().decode())
    except HTTPError as error:
        with error:
            return Said(error.code, error.read().decode())


def _login(
    bus: Emulator,
    path: str = "57.0/",
    form: str = PYTHON,
    host: str = "",
    **changed: str,
) -> Said:
    given = {"name": bus.org.username, "password": bus.org.password + bus.org.security_token}
    values = {**given, **changed}
    if form is NODE:
        values = {key: escape(value) for key, value in values.items()}
    return _post(f"{host or bus.login_url}/services/Soap/u/{path}", form.format(**values))


@pytest.mark.parametrize("where", ["login_url", "my_domain_url"])
@pytest.mark.parametrize(
    ("path", "form"), [("57.0/", PYTHON), ("43.0/", PYTHON), ("50.0", NODE)], ids=str
)
def test_login(where: str, path: str, form: str) -> None:
    """Both hosts accept both envelopes, and the session opens the REST API."""
    with Emulator() as bus:
        said = _login(bus, path, form, getattr(bus, where))
        assert said.status == 200
        version = path.rstrip("/")
        org = bus.org.org_id[:15]
        assert said.value("serverUrl") == f"{bus.my_domain_url}/services/Soap/u/{version}/{org}"
        assert said.value("passwordExpired") == "false"
        assert said.value("userId") == bus.org.user_id
        assert said.value("organizationId") == bus.org.org_id
        url = f"{bus.my_domain_url}/services/data/v64.0/limits"
        bearer = {"Authorization": f"Bearer {said.value('sessionId')}"}
        with urlopen(Request(url, headers=bearer), timeout=10) as answer:  # noqa: S310
            assert answer.status == 200
        assert [one.rpc for one in bus.requests] == ["soap", "rest"]


def test_a_user_that_is_locked_out() -> None:
    """A locked user has the same fault as a wrong password."""
    with Emulator() as bus:
        bus.lock_out(bus.org.username.upper())
        assert _login(bus).fault[1] == INVALID
        bus.unlock(bus.org.username)
        assert _login(bus).status == 200


def test_another_orgs_user() -> None:
    """A My Domain knows only its own user; the login host knows all."""
    with Emulator() as bus:
        other = bus.add_org("other")
        who = {"name": other.username, "password": other.password + other.security_token}
        assert _login(bus, host=bus.my_domain_url, **who).fault[1] == INVALID
        assert _login(bus, host=other.instance_url, **who).value("organizationId") == other.org_id
        assert _login(bus, **who).value("organizationId") == other.org_id


def test_an_org_that_has_it_disabled() -> None:
    """A disabled login() has its fault; by knob, newer versions have it too."""
    knobs = Knobs(soap_login=False, soap_too_new="INVALID_OPERATION")
    with Emulator(knobs=knobs) as bus:
        for version in ("57.0/", "65.0"):
            said = _login(bus, version)
            assert (said.status, said.fault[0]) == (500, "sf:INVALID_OPERATION")
            assert "SOAP API login() is disabled by default in this org" in said.fault[1]


def test_an_expired_password() -> None:
    """With an expired password, the answer states it and has a session."""
    with Emulator(knobs=Knobs(password_expired=True)) as bus:
        said = _login(bus)
        assert (said.status, said.value("passwordExpired")) == (200, "true")


def test_failures_by_order() -> None:
    """An ordered failure is a wrong password or an HTTP error."""
    with Emulator() as bus:
        bus.fail_next("soap", status="UNAUTHENTICATED")
        bus.fail_next("soap", status="UNAVAILABLE")
        assert _login(bus).fault == ("sf:INVALID_LOGIN", INVALID)
        assert _login(bus).status == 503
        assert _login(bus).status == 200
        bus.check()
