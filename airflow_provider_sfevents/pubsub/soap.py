"""The SOAP login: what is sent, and what its answer says. Pure; Salesforce ends it with Summer '27.

The answer is read by expat with document types refused, so that no entity is ever declared, let alone fetched.
SOAP API Developer Guide, "login()"; shapes of answers and faults from live orgs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.parsers import expat
from xml.sax.saxutils import escape

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    TransportError,
)
from airflow_provider_sfevents.pubsub import soap_errors
from airflow_provider_sfevents.pubsub.session import long_id, org_id_from_token
from airflow_provider_sfevents.pubsub.settings import SoapLogin, base_url

HEADERS = {
    "Content-Type": "text/xml; charset=UTF-8",
    "SOAPAction": "login",
    "Accept": "text/xml",
}

_MAX_ANSWER_BYTES = 1_000_000
"""A login's answer has some three thousand."""

_UNSPEAKABLE = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What XML 1.0 cannot carry, not even escaped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoapSession:
    """:param org_id: 18 characters; empty where the answer does not tell."""

    token: str = field(repr=False)
    instance_url: str
    org_id: str
    user_id: str


class _NotReadableError(Exception):
    """The answer is no XML that we read."""


def login_path(login: SoapLogin) -> str:
    return f"/services/Soap/u/{login.api_version}/"


def envelope(login: SoapLogin) -> bytes:
    """The request's body.

    :raises ConfigurationError: user name or password hold what XML cannot carry.
    """
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:urn="urn:partner.soap.sforce.com">'
        f"<soapenv:Body><urn:login><urn:username>{_escaped(login.username, 'user name')}</urn:username>"
        f"<urn:password>{_escaped(login.password + login.security_token, 'password')}</urn:password></urn:login>"
        "</soapenv:Body></soapenv:Envelope>"
    ).encode()


def read_answer(login: SoapLogin, status: int, body: bytes) -> SoapSession:
    """The session that the answer grants.

    :param status: HTTP; a fault comes with 500.
    :raises AuthenticationError: a fault, with Salesforce's reason and our remedy; or the user's password has expired.
    :raises TransportError: the host is away. :raises ConfigurationError: what answers there is no SOAP login.
    """
    try:
        said = _leaves(body)
    except _NotReadableError:
        said = {}
    if "faultstring" in said:
        raise _fault(login, said)
    if status >= 500:
        raise TransportError(
            f"{login.login_url} answered the login with HTTP {status}. Try again later."
        )
    if not said.get("sessionId") or not said.get("serverUrl"):
        raise ConfigurationError(
            f"{login.login_url}{login_path(login)} answered HTTP {status}, not as a SOAP login does. Set the host to "
            "https://login.salesforce.com, https://test.salesforce.com or the org's My Domain."
        )
    if said.get("passwordExpired") == "true":
        raise AuthenticationError(
            f"The password of {login.username} has expired. Set a new one in Salesforce, and give it with the new security token."
        )
    token = said["sessionId"]
    return SoapSession(
        token=token,
        instance_url=base_url(said["serverUrl"], "server URL in the login's answer"),
        org_id=long_id(said.get("organizationId", "")) or org_id_from_token(token),
        user_id=said.get("userId", ""),
    )


def _fault(login: SoapLogin, said: dict[str, str]) -> AuthenticationError | TransportError:
    code = said.get("exceptionCode") or said.get("faultcode", "").rpartition(":")[2]
    text = said.get("exceptionMessage") or said["faultstring"]
    text = text.removeprefix(f"{code}: ").rstrip(".")
    found = soap_errors.fault(code, text)
    message = f"{login.login_url} refused the SOAP login of {login.username}: {code} ({text}). {found.remedy}"
    return TransportError(message) if found.passes else AuthenticationError(message)


def _leaves(body: bytes) -> dict[str, str]:
    """Text of each element by its local name, the first of its name; elements around others have none."""
    if len(body) > _MAX_ANSWER_BYTES:
        raise _NotReadableError
    found: dict[str, str] = {}
    text: list[str] = []

    def begin(_: str, __: dict[str, str]) -> None:
        text.clear()

    def end(name: str) -> None:
        found.setdefault(name.rpartition(":")[2], "".join(text).strip())
        text.clear()

    def refuse(*_: object) -> None:
        raise _NotReadableError

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = begin, end
    parser.CharacterDataHandler = text.append
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    try:
        parser.Parse(body, True)
    except (expat.ExpatError, ValueError) as error:
        raise _NotReadableError from error
    return found


def _escaped(text: str, what: str) -> str:
    if _UNSPEAKABLE.search(text):
        raise ConfigurationError(
            f"The {what} holds a character that XML cannot carry, so it cannot be sent by the SOAP login. Use another login, or change the {what}."
        )
    return escape(text)
