"""SOAP login(), which API versions 31.0 to 64.0 have until Summer '27."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

import pytest

from tests.contract.signing_in import soap_login

if TYPE_CHECKING:
    import httpx

    from tests.contract.orgs import OrgUnderTest

RESULT = [
    *("metadataServerUrl", "passwordExpired", "sandbox", "serverUrl", "sessionId", "userId"),
    "userInfo",
]
USER = [
    *("accessibilityMode", "chatterExternal", "currencySymbol", "orgAttachmentFileSizeLimit"),
    *("orgDefaultCurrencyIsoCode", "orgDefaultCurrencyLocale", "orgDisallowHtmlAttachments"),
    *("orgHasPersonAccounts", "organizationId", "organizationMultiCurrency", "organizationName"),
    *("profileId", "roleId", "sessionSecondsValid", "userDefaultCurrencyIsoCode", "userEmail"),
    *("userFullName", "userId", "userLanguage", "userLocale", "userName", "userTimeZone"),
    *("userType", "userUiSkin"),
]


def _login(org: OrgUnderTest, **more: str) -> httpx.Response:
    door = org.by("soap")
    password = door.values["password"] + door.values.get("security_token", "")
    return soap_login(org.http, door.host, door.values["login"], password, **more)


def _result(org: OrgUnderTest) -> Any:
    answer = _login(org)
    assert answer.status_code == 200
    return ET.fromstring(answer.text)[0][0][0]  # noqa: S314 - of the org under test


def _name(node: Any) -> str:
    return str(node.tag.rpartition("}")[2])


def test_the_answer_has_its_children_in_order(org: OrgUnderTest) -> None:
    """There is no Header, the result is first and the session id fifth.

    Source: Salesforce's Python sample, answers of live orgs.
    """
    result = _result(org)
    assert [_name(child) for child in result] == RESULT


def test_the_user_info_has_its_children_in_order(org: OrgUnderTest) -> None:
    """The org's id is the ninth child. Source: Salesforce's Python sample, answers of live orgs."""
    info = _result(org)[6]
    assert [_name(child) for child in info] == USER
    assert (len(info[8].text), info[8].text[:15]) == (18, org.headers["tenantid"][:15])


def test_the_session_opens_the_api(org: OrgUnderTest) -> None:
    """The session id is a token for the instance of `serverUrl`.

    Source: Salesforce's Python sample.
    """
    result = _result(org)
    headers = {
        "accesstoken": result[4].text,
        "instanceurl": "/".join(result[3].text.split("/")[:3]),
        "tenantid": result[6][8].text,
    }
    assert org.client.with_headers(headers).get_topic(org.topic).topic_name == org.topic


def test_children_are_found_by_plain_tags(org: OrgUnderTest) -> None:
    """Tags have neither prefixes nor attributes, as jsforce requires. Source: jsforce."""
    text = _login(org).text
    for tag in ("serverUrl", "sessionId", "userId", "organizationId", "passwordExpired"):
        assert f"<{tag}>" in text


def test_the_session_lasts_as_long_as_is_said(org: OrgUnderTest) -> None:
    """`sessionSecondsValid` is two hours by default. Source: Answers of live orgs."""
    assert 900 <= int(_result(org)[6][13].text) <= 86_400


@pytest.mark.parametrize("version", ["31.0", "43.0", "64.0"])
def test_versions_that_have_it(org: OrgUnderTest, version: str) -> None:
    """login() exists from 31.0 to 64.0, with URLs of the requested version.

    Source: Salesforce Help, article 005132110.
    """
    answer = _login(org, version=version)
    assert answer.status_code == 200
    assert f"/services/Soap/u/{version}/{org.headers['tenantid'][:15]}</serverUrl>" in answer.text


def test_another_clients_envelope_will_do(org: OrgUnderTest) -> None:
    """Jsforce's envelope is accepted: other prefixes, empty Header and SOAPAction.

    Source: jsforce.
    """
    door = org.by("soap")
    password = door.values["password"] + door.values.get("security_token", "")
    body = (
        '<se:Envelope xmlns:se="http://schemas.xmlsoap.org/soap/envelope/"><se:Header/><se:Body>'
        f'<login xmlns="urn:partner.soap.sforce.com"><username>{escape(door.values["login"])}</username>'
        f"<password>{escape(password)}</password></login></se:Body></se:Envelope>"
    )
    headers = {"content-type": "text/xml", "SOAPAction": '""'}
    answer = org.http.post(f"{door.host}/services/Soap/u/50.0", content=body, headers=headers)
    assert answer.status_code == 200
    assert "<sessionId>" in answer.text


def test_an_org_may_have_it_disabled(org: OrgUnderTest) -> None:
    """login() may be disabled, as in new orgs. Source: answers of live orgs."""
    with org.set_up("its administrator would have to disable it", soap_login=False) as other:
        answer = _login(other)
    assert answer.status_code == 500
    assert "INVALID_OPERATION" in answer.text
    assert "SOAP API login() is disabled by default in this org." in answer.text


def test_a_wrong_password_is_a_fault(org: OrgUnderTest) -> None:
    """A wrong password is HTTP 500 with INVALID_LOGIN. Source: answers of live orgs."""
    with org.set_up(
        "it would count as a failed login, and some of those lock the user out"
    ) as other:
        door = other.by("soap")
        answer = soap_login(other.http, door.host, door.values["login"], "wrong")
        assert answer.status_code == 500
        assert "<faultcode>sf:INVALID_LOGIN</faultcode>" in answer.text
        assert "INVALID_LOGIN: Invalid username, password, security token; or user locked out." in (
            answer.text
        )


@pytest.mark.parametrize("version", ["65.0", "30.0"])
def test_other_versions_do_not_have_it(org: OrgUnderTest, version: str) -> None:
    """Versions from 65.0 on and before 31.0 are refused.

    Source: Salesforce Help, article 005132110.
    """
    answer = _login(org, version=version)
    assert answer.status_code == 500
    assert "Fault>" in answer.text
    assert version == "65.0" or "UNSUPPORTED_API_VERSION" in answer.text
