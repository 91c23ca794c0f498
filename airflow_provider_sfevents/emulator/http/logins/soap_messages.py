"""SOAP `login()` of the Partner API: requests, answers and faults. Pure.

Clients parse these answers by position, by local name or by regular expression. Therefore the order
of the children matters, no element inside the envelope has a prefix or an attribute except the two
that are nil, and there is no header. Sources: answers of live orgs in public issues; Salesforce
help, "SOAP API login() retirement".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.http.logins.userinfo import FULL_NAME

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.knobs import Knobs
    from airflow_provider_sfevents.emulator.state.org_sessions import OrgSession

_ENVELOPE = "http://schemas.xmlsoap.org/soap/envelope/"
_PARTNER = "urn:partner.soap.sforce.com"
_FAULT = "urn:fault.partner.soap.sforce.com"
_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"
_OLDEST, _NEWEST = 31, 64
_VERSION = re.compile(r"(\d{1,3})\.0")
_HOUR = 3600

INVALID_LOGIN = "Invalid username, password, security token; or user locked out."
DISABLED = (
    "SOAP API login() is disabled by default in this org. Contact the org administrator to enable "
    "SOAP API login()."
)


class SoapLoginRefusedError(Exception):
    """Refused login: a SOAP fault, always HTTP 500.

    :param code: exception code, such as `INVALID_LOGIN`; empty if the request was no call of
        login().
    """

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class LoginCall:
    """Arguments of login(): name, and password followed by the security token."""

    username: str
    password: str = field(repr=False)


def check_version(version: str, knobs: Knobs) -> None:
    """Check the API version: login() works in 31.0 to 64.0, unless the org has disabled it.

    :raises SoapLoginRefusedError: another version, or login() is disabled.
    """
    found = _VERSION.fullmatch(version)
    number = int(found[1]) if found else 0
    if number > _NEWEST and knobs.soap_too_new == "INVALID_OPERATION":
        raise SoapLoginRefusedError("INVALID_OPERATION", DISABLED)
    if not _OLDEST <= number <= _NEWEST:
        raise SoapLoginRefusedError(
            "UNSUPPORTED_API_VERSION", "Invalid Api version specified on URL"
        )
    if not knobs.soap_login:
        raise SoapLoginRefusedError("INVALID_OPERATION", DISABLED)


def read_login(body: bytes) -> LoginCall:
    """Parse a request, with any prefixes.

    :raises SoapLoginRefusedError: the request is no call of login().
    """
    try:
        envelope = ET.fromstring(body)  # noqa: S314 - the parser refuses expanding entities
    except (ET.ParseError, ValueError, LookupError) as error:  # LookupError: its encoding
        raise SoapLoginRefusedError("", f"The request is not well-formed XML: {error}") from error
    calls = [call for part in envelope if _local(part) == "Body" for call in part]
    if not calls or _local(envelope) != "Envelope":
        raise SoapLoginRefusedError("", "The request is not a SOAP envelope with a body.")
    if calls[0].tag != f"{{{_PARTNER}}}login":
        raise SoapLoginRefusedError(
            "",
            f"No operation available for request {calls[0].tag}, please check the WSDL for the "
            "service.",
        )
    given = {_local(child): child.text or "" for child in calls[0]}
    return LoginCall(given.get("username", "").strip(), given.get("password", ""))


def answer(session: OrgSession, version: str, knobs: Knobs) -> str:
    """Answer to a successful login."""
    base = f"{session.instance_url}/services/Soap"
    org = session.org_id[:15]
    result = [
        ("metadataServerUrl", f"{base}/m/{version}/{org}"),
        ("passwordExpired", _flag(knobs.password_expired)),
        ("sandbox", "false"),
        ("serverUrl", f"{base}/u/{version}/{org}"),
        ("sessionId", session.token),
        ("userId", session.user_id),
    ]
    user = "".join(_element(name, value) for name, value in _user(session, knobs))
    inside = "".join(_element(name, value) for name, value in result)
    return _enveloped(
        f'xmlns="{_PARTNER}" xmlns:xsi="{_INSTANCE}"',
        f"<loginResponse><result>{inside}<userInfo>{user}</userInfo></result></loginResponse>",
    )


def fault(refused: SoapLoginRefusedError) -> str:
    """Answer to a refused login."""
    code, text = refused.code, escape(refused.message)
    if not code:
        return _enveloped(
            "",
            "<soapenv:Fault><faultcode>soapenv:Client</faultcode>"
            f"<faultstring>{text}</faultstring></soapenv:Fault>",
        )
    kind = "LoginFault" if code == "INVALID_LOGIN" else "UnexpectedErrorFault"
    return _enveloped(
        f'xmlns:sf="{_FAULT}" xmlns:xsi="{_INSTANCE}"',
        f"<soapenv:Fault><faultcode>sf:{code}</faultcode><faultstring>{code}: {text}</faultstring>"
        f'<detail><sf:{kind} xsi:type="sf:{kind}"><sf:exceptionCode>{code}</sf:exceptionCode>'
        f"<sf:exceptionMessage>{text}</sf:exceptionMessage></sf:{kind}></detail></soapenv:Fault>",
    )


def _user(session: OrgSession, knobs: Knobs) -> list[tuple[str, str | None]]:
    """Children of userInfo in the order of API 39.0 and later; None for nil."""
    return [
        ("accessibilityMode", "false"),
        ("chatterExternal", "false"),
        ("currencySymbol", "$"),
        ("orgAttachmentFileSizeLimit", "5242880"),
        ("orgDefaultCurrencyIsoCode", "USD"),
        ("orgDefaultCurrencyLocale", "en_US"),
        ("orgDisallowHtmlAttachments", "false"),
        ("orgHasPersonAccounts", _flag(knobs.person_accounts)),
        ("organizationId", session.org_id),
        ("organizationMultiCurrency", "false"),
        ("organizationName", "sfevents emulator"),
        ("profileId", salesforce_ids.long_id(f"00e{session.user_id[3:15]}")),
        ("roleId", None),
        ("sessionSecondsValid", str(round(knobs.token_idle_hours * _HOUR))),
        ("userDefaultCurrencyIsoCode", None),
        ("userEmail", session.username),
        ("userFullName", FULL_NAME),
        ("userId", session.user_id),
        ("userLanguage", "en_US"),
        ("userLocale", "en_US"),
        ("userName", session.username),
        ("userTimeZone", "Etc/UTC"),
        ("userType", "Standard"),
        ("userUiSkin", "Theme3"),
    ]


def _enveloped(namespaces: str, body: str) -> str:
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        f'<soapenv:Envelope xmlns:soapenv="{_ENVELOPE}"{" " if namespaces else ""}{namespaces}>'
        f"<soapenv:Body>{body}</soapenv:Body></soapenv:Envelope>"
    )


def _element(name: str, value: str | None) -> str:
    return f'<{name} xsi:nil="true"/>' if value is None else f"<{name}>{escape(value)}</{name}>"


def _flag(value: bool) -> str:
    return str(value).lower()


def _local(element: ET.Element) -> str:
    return str(element.tag).rpartition("}")[2]
