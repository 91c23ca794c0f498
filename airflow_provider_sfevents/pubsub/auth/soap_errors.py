"""Faults of the SOAP login and their remedies.

Codes: SOAP API Developer Guide, "ExceptionCode"; texts as live orgs send them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SoapFault:
    """Row of the table of faults. :param passes: the same login may succeed later."""

    code: str
    means: str
    remedy: str
    passes: bool = False


FAULTS = (
    SoapFault(
        "INVALID_LOGIN",
        "User name, password or security token are wrong, or the user is locked out.",
        "Check user name and password, and add the user's security token, which changes with the "
        "password; for a sandbox use https://test.salesforce.com. The user may be locked out "
        "after wrong tries.",
    ),
    SoapFault(
        "LOGIN_MUST_USE_SECURITY_TOKEN",
        "The request comes from a network that the org does not trust, without a security token.",
        "Give the user's security_token, or let an administrator trust this machine's addresses.",
    ),
    SoapFault(
        "INVALID_OPERATION",
        "SOAP login() is switched off in this org, as it is in new ones.",
        "Use client credentials or JWT bearer; or let an administrator enable SOAP API login() "
        "and give the user the permission Use Any API Auth. Salesforce ends this login with "
        "Summer '27.",
    ),
    SoapFault(
        "UNSUPPORTED_API_VERSION",
        "The org does not offer login() in this API version.",
        "Set api_version to one from 31.0 to 64.0, or leave it empty.",
    ),
    SoapFault(
        "PASSWORD_LOCKOUT",
        "The user is locked out after wrong passwords.",
        "Wait, or let an administrator unlock the user; then correct the connection first.",
    ),
    SoapFault("ORG_LOCKED", "The org is locked.", "Ask the org's administrator, or Salesforce."),
    SoapFault(
        "LOGIN_RATE_EXCEEDED",
        "The user logged in too often within an hour.",
        "Wait, and let tasks share one connection.",
    ),
    SoapFault(
        "SERVER_UNAVAILABLE",
        "The service is away just now.",
        "This passes: try again.",
        passes=True,
    ),
)

_DEFAULT = SoapFault(
    "",
    "",
    "Check the connection's user name and password, and the user's login history in the org.",
)


def fault(code: str, text: str) -> SoapFault:
    """The row of a fault; for an unknown one, a general remedy.

    :param text: separates faults under one code: "login() is disabled" was seen under more than
        one.
    """
    if "login() is disabled" in text:
        code = "INVALID_OPERATION"
    return next((one for one in FAULTS if one.code == code), _DEFAULT)
