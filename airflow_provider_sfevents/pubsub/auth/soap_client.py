"""SOAP login: its request and the meaning of its answer. Salesforce ends it with Summer '27.

The answer is read by expat with document types refused, so that no entity is declared or fetched.
SOAP API Developer Guide, "login()"; shapes of answers and faults from live orgs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.parsers import expat
from xml.sax.saxutils import escape

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth import soap_errors
from airflow_provider_sfevents.pubsub.auth.org_http import passes
from airflow_provider_sfevents.pubsub.auth.secret import NO_SECRET, Secret

if TYPE_CHECKING:
    import httpx

    from airflow_provider_sfevents.pubsub.auth.settings import SoapLogin

MEDIA_TYPE = "text/xml; charset=UTF-8"
HEADERS = {"SOAPAction": "login", "Accept": "text/xml"}

_MAX_ANSWER_BYTES = 1_000_000
"""A usual answer to a login has some 3,000 bytes."""

_UNSPEAKABLE = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot carry, not even escaped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoapAnswer:
    """Fields of a SOAP answer, as far as they are used; empty if absent.

    :param server_url: of the org's API, with a path.
    :param fault: Salesforce's code of a refusal, with its text in `reason`.
    """

    token: Secret = NO_SECRET
    server_url: str = ""
    org_id: str = ""
    user_id: str = ""
    password_expired: bool = False
    fault: str = ""
    reason: str = ""


class _NotReadableError(Exception):
    """The answer is not XML, or has more than is read."""


def login_path(login: SoapLogin) -> str:
    return f"/services/Soap/u/{login.api_version}/"


def envelope(login: SoapLogin) -> bytes:
    """The request's body; the result gets no name, see `Secret`.

    :raises ConfigurationError: user name or password hold a character that XML cannot carry.
    """
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" '
        'xmlns:urn="urn:partner.soap.sforce.com">'
        "<soapenv:Body><urn:login>"
        f"<urn:username>{_escaped(Secret(login.username), 'user name')}</urn:username>"
        "<urn:password>"
        f"{_escaped(login.password, 'password')}{_escaped(login.security_token, 'security token')}"
        "</urn:password></urn:login>"
        "</soapenv:Body></soapenv:Envelope>"
    ).encode()


def read_answer(login: SoapLogin, answer: httpx.Response) -> SoapAnswer:
    """The fields of an answer that grants a session; a fault comes with HTTP 500.

    :raises AuthenticationError: a fault, with Salesforce's reason and the remedy; or the user's
        password has expired.
    :raises TransportError: the host is away.
    :raises ConfigurationError: the host answers, and is no SOAP login.
    """
    said, status = _read(answer), answer.status_code
    if said.fault or said.reason:
        raise _fault(login, said)
    if passes(status):
        raise TransportError(
            f"{login.login_url} answered the login with HTTP {status}. Try again later."
        )
    if not said.token or not said.server_url:
        raise ConfigurationError(
            f"{login.login_url}{login_path(login)} answered HTTP {status}, not as a SOAP login "
            "does. Set the host to https://login.salesforce.com, https://test.salesforce.com or "
            "the org's My Domain."
        )
    if said.password_expired:
        raise AuthenticationError(
            f"The password of {login.username} has expired. Set a new one in Salesforce, and give "
            "it with the new security token."
        )
    return said


def _read(answer: httpx.Response) -> SoapAnswer:
    """Fields of the answer; none if it is not readable."""
    try:
        said = _leaves(answer.content)
    except _NotReadableError:
        return SoapAnswer()
    if "faultstring" in said:
        code = said.get("exceptionCode") or said.get("faultcode", "").rpartition(":")[2]
        return SoapAnswer(fault=code, reason=said.get("exceptionMessage") or said["faultstring"])
    return SoapAnswer(
        token=Secret(said.get("sessionId", "")),
        server_url=said.get("serverUrl", ""),
        org_id=said.get("organizationId", ""),
        user_id=said.get("userId", ""),
        password_expired=said.get("passwordExpired") == "true",
    )


def _fault(login: SoapLogin, said: SoapAnswer) -> AuthenticationError | TransportError:
    text = said.reason.removeprefix(f"{said.fault}: ").rstrip(".")
    found = soap_errors.fault(said.fault, text)
    message = (
        f"{login.login_url} refused the SOAP login of {login.username}: {said.fault} ({text}). "
        f"{found.remedy}"
    )
    return TransportError(message) if found.passes else AuthenticationError(message)


def _leaves(body: bytes) -> dict[str, str]:
    """Text of each element by its local name, the first of its name.

    Elements around others have none.
    """
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


def _escaped(text: Secret, what: str) -> str:
    if _UNSPEAKABLE.search(text.reveal()):
        raise ConfigurationError(
            f"The {what} holds a character that XML cannot carry, so it cannot be sent by the SOAP "
            f"login. Use another login, or change the {what}."
        )
    return escape(text.reveal())
