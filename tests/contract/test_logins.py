"""The OAuth token endpoint and userinfo, over plain HTTP."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from tests.contract.signing_in import JWT_GRANT, Door, token

if TYPE_CHECKING:
    import httpx

    from tests.contract.orgs import OrgUnderTest

GRANTS = ("client_credentials", "jwt_bearer", "refresh_token", "password")
ISSUED = {"issued_at", "signature"}
ALWAYS = {"access_token", "instance_url", "id", "token_type"}


def _login(org: OrgUnderTest, auth: str) -> httpx.Response:
    door = org.by(auth)
    return token(org.http, door.host, door.form())


def _longer(record_id: str) -> str:
    """Long form of a 15-character id; its suffix states the capitals."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
    chunks = (record_id[at : at + 5] for at in (0, 5, 10))
    bits = (sum(one.isupper() << place for place, one in enumerate(chunk)) for chunk in chunks)
    return record_id + "".join(digits[each] for each in bits)


def _said(answer: httpx.Response) -> tuple[int, str, str]:
    body = answer.json()
    return answer.status_code, body["error"], body["error_description"]


@pytest.mark.parametrize("auth", GRANTS)
def test_each_grant_gives_a_token(org: OrgUnderTest, auth: str) -> None:
    """Each grant's answer has the keys of its page, never `expires_in`.

    Source: OAuth flow pages of Salesforce Help.
    """
    answer = _login(org, auth)
    assert answer.status_code == 200
    body = answer.json()
    assert set(body) >= ALWAYS | (set() if auth == "jwt_bearer" else ISSUED)
    assert "expires_in" not in body
    assert body["token_type"] == "Bearer"


@pytest.mark.parametrize("auth", GRANTS)
def test_no_grant_gives_a_refresh_token(org: OrgUnderTest, auth: str) -> None:
    """No grant returns a refresh token. Source: OAuth flow pages of Salesforce Help."""
    assert "refresh_token" not in _login(org, auth).json()


@pytest.mark.parametrize("auth", GRANTS)
def test_the_token_begins_with_the_org(org: OrgUnderTest, auth: str) -> None:
    """A token is the org's 15-character id, an exclamation mark and the rest.

    Source: tokens of live orgs.
    """
    head, mark, _ = _login(org, auth).json()["access_token"].partition("!")
    assert (head, mark) == (org.headers["tenantid"][:15], "!")


@pytest.mark.parametrize("auth", GRANTS)
def test_the_id_url_names_org_and_user(org: OrgUnderTest, auth: str) -> None:
    """The `id` URL names org and user with 18 characters each. Source: Identity URLs page."""
    host, _, rest = _login(org, auth).json()["id"].partition("/id/")
    org_id, user_id = rest.split("/")
    assert host in {"https://login.salesforce.com", "https://test.salesforce.com"}
    assert org_id[:15] == org.headers["tenantid"][:15]
    assert user_id[:3] == "005"
    assert [_longer(one[:15]) for one in (org_id, user_id)] == [org_id, user_id]


@pytest.mark.parametrize("auth", GRANTS)
def test_the_instance_url_has_no_path(org: OrgUnderTest, auth: str) -> None:
    """The instance URL is the My Domain URL, as the header `instanceurl` requires.

    Source: OAuth flow pages of Salesforce Help.
    """
    url = urlsplit(_login(org, auth).json()["instance_url"])
    assert (bool(url.scheme), bool(url.netloc), url.path) == (True, True, "")


@pytest.mark.parametrize("auth", GRANTS)
def test_the_time_of_issue_is_text_of_milliseconds(org: OrgUnderTest, auth: str) -> None:
    """`issued_at`, if given, is text of milliseconds.

    Source: OAuth flow pages of Salesforce Help.
    """
    body = _login(org, auth).json()
    if "issued_at" in body:
        assert abs(int(body["issued_at"]) / 1000 - time.time()) < 3600


@pytest.mark.parametrize("auth", GRANTS)
def test_all_but_the_password_grant_name_the_scope(org: OrgUnderTest, auth: str) -> None:
    """All grants except the password grant return the scope, separated by spaces.

    Source: OAuth flow pages of Salesforce Help.
    """
    scope = _login(org, auth).json().get("scope")
    assert ("api" in scope.split()) if auth != "password" else scope is None


def test_the_secret_may_come_by_http_basic(org: OrgUnderTest) -> None:
    """The secret may come by HTTP Basic authentication instead of the form.

    Source: OAuth 2.0 Client Credentials Flow page.
    """
    door = org.by("client_credentials")
    form = door.form()
    basic = (form.pop("client_id"), form.pop("client_secret"))
    answer = org.http.post(f"{door.host}/services/oauth2/token", data=form, auth=basic)
    assert answer.status_code == 200


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"client_credentials_flow": "no_user"}, "no client credentials user enabled"),
        ({"client_credentials_flow": "disabled"}, "client credentials flow not enabled"),
        ({"app_access": "not_approved"}, "user hasn't approved this consumer"),
        (
            {"app_access": "not_admin_approved"},
            "user is not admin approved to access this app",
        ),
        (
            {"app_access": "not_installed"},
            "External client app is not installed in this org",
        ),
    ],
    ids=["no user", "not enabled", "not approved", "not by the admin", "not installed"],
)
def test_an_app_that_is_set_up_otherwise(
    org: OrgUnderTest, knobs: dict[str, str], said: str
) -> None:
    """A login that the app's setup forbids is refused with its reason.

    Source: answers of live orgs, answers of the community.
    """
    with org.set_up("its app would have to be set up wrongly", **knobs) as other:
        door = other.by("client_credentials")
        status, _, description = _said(token(other.http, door.host, door.form()))
    assert (status, description) == (400, said)


def test_the_answer_may_not_be_stored(org: OrgUnderTest) -> None:
    """The answer has `Cache-Control: no-store`. Source: OAuth 2.0 pages of Salesforce Help."""
    org.need_grant(*GRANTS)
    answer = token(org.http, org.door.host, org.door.form())
    assert "no-store" in answer.headers["cache-control"]


def test_client_credentials_need_the_my_domain_host(org: OrgUnderTest) -> None:
    """The login host refuses client credentials. Source: answers of live orgs."""
    door = org.by("client_credentials")
    login = str(org.emulator.login_url) if org.emulator else "https://login.salesforce.com"
    assert _said(token(org.http, login, door.form())) == (
        400,
        "invalid_grant",
        "request not supported on this domain",
    )


def test_a_wrong_secret_is_refused(org: OrgUnderTest) -> None:
    """A wrong secret is refused. Source: answers of live orgs."""
    door = org.by("client_credentials")
    answer = token(org.http, door.host, {**door.form(), "client_secret": "wrong"})
    assert _said(answer) == (400, "invalid_client", "invalid client credentials")


def test_an_unknown_consumer_key_is_refused(org: OrgUnderTest) -> None:
    """An unknown consumer key is refused. Source: answers of live orgs."""
    door = org.by("client_credentials")
    answer = token(org.http, door.host, {**door.form(), "client_id": "3MVG9unknown"})
    assert _said(answer) == (400, "invalid_client_id", "client identifier invalid")


def test_another_grant_is_refused(org: OrgUnderTest) -> None:
    """An unknown grant is refused.

    Source: OAuth 2.0 Authorization Errors page, answers of live orgs.
    """
    answer = token(org.http, org.door.host, {"grant_type": "magic"})
    assert _said(answer) == (400, "unsupported_grant_type", "grant type not supported")


def test_a_wrong_password_is_refused(org: OrgUnderTest) -> None:
    """A wrong password is refused. Source: answers of live orgs."""
    with org.set_up(
        "it would count as a failed login, and some of those lock the user out"
    ) as other:
        door = other.by("password")
        answer = token(other.http, door.host, {**door.form(), "password": "wrong"})
        assert _said(answer) == (400, "invalid_grant", "authentication failure")


def test_a_dead_refresh_token_is_refused(org: OrgUnderTest) -> None:
    """An invalid refresh token is refused. Source: OAuth 2.0 Authorization Errors page."""
    door = org.by("refresh_token")
    answer = token(org.http, door.host, {**door.form(), "refresh_token": "5Aep861dead"})
    assert _said(answer) == (400, "invalid_grant", "expired access/refresh token")


@pytest.mark.parametrize(
    ("claims", "why"),
    [
        ({"aud": "https://nowhere.example.com"}, "Audience validation failed"),
        ({"exp": 1_600_000_000}, "expired authorization code"),
    ],
    ids=["audience", "expired"],
)
def test_a_wrong_assertion_is_refused(org: OrgUnderTest, claims: dict[str, str], why: str) -> None:
    """A wrong assertion is refused.

    Source: OAuth 2.0 Authorization Errors page for the audience, answers of live orgs for the time.
    """
    door = org.by("jwt_bearer")
    assert _said(_bearer(org, door, door.assertion(**claims))) == (400, "invalid_grant", why)


def test_rubbish_is_no_assertion(org: OrgUnderTest) -> None:
    """Text that is no JWT is refused as an assertion. Source: community answers."""
    door = org.by("jwt_bearer")
    found = _said(_bearer(org, door, f"{door.assertion()[:-8]}AAAAAAAA"))
    assert found == (400, "invalid_grant", "invalid assertion")


def test_an_assertion_may_be_good_for_five_minutes(org: OrgUnderTest) -> None:
    """A JWT of five minutes is accepted, though the page allows three. Source: that client."""
    door = org.by("jwt_bearer")
    answer = _bearer(org, door, door.assertion(exp=int(time.time()) + 295))
    assert answer.status_code == 200


def test_an_assertion_may_not_be_good_for_more_than_three_minutes(org: OrgUnderTest) -> None:
    """A JWT above three minutes is refused. Source: OAuth 2.0 JWT Bearer Flow page."""
    door = org.by("jwt_bearer")
    answer = _bearer(org, door, door.assertion(exp=int(time.time()) + 295))
    assert answer.status_code == 400


def _bearer(org: OrgUnderTest, door: Door, assertion: str) -> httpx.Response:
    return token(org.http, door.host, {"grant_type": JWT_GRANT, "assertion": assertion})


# --- what a token opens ---------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["login", "instance"])
def test_userinfo_names_org_and_user(org: OrgUnderTest, host: str) -> None:
    """Userinfo names org and user, on the login host and on the instance.

    Source: User Info endpoint page, known clients.
    """
    login = str(org.emulator.login_url) if org.emulator else org.door.host
    url = login if host == "login" else org.headers["instanceurl"]
    bearer = {"authorization": f"Bearer {org.headers['accesstoken']}"}
    body = org.http.get(f"{url}/services/oauth2/userinfo", headers=bearer).json()
    assert body["organization_id"][:15] == org.headers["tenantid"][:15]
    assert len(body["organization_id"]) == 18
    assert {"sub", "user_id", "preferred_username", "name", "email", "urls"} <= set(body)


def test_userinfo_tells_where_things_are(org: OrgUnderTest) -> None:
    """Userinfo has URLs with a version placeholder; `sub` is the identity URL.

    Source: User Info endpoint page, known clients.
    """
    url = f"{org.headers['instanceurl']}/services/oauth2/userinfo"
    body = org.http.get(url, headers=org.bearer).json()
    assert body["urls"]["rest"].endswith("/services/data/v{version}/")
    assert body["urls"]["custom_domain"] == org.headers["instanceurl"]
    assert body["sub"].split("/")[-3:] == ["id", body["organization_id"], body["user_id"]]


def test_the_token_may_be_an_argument(org: OrgUnderTest) -> None:
    """The token may be the query parameter `oauth_token`. Source: User Info endpoint page."""
    url = f"{org.headers['instanceurl']}/services/oauth2/userinfo"
    answer = org.http.get(url, params={"oauth_token": org.headers["accesstoken"]})
    assert answer.json()["organization_id"][:15] == org.headers["tenantid"][:15]


def test_the_identity_can_be_asked_for(org: OrgUnderTest) -> None:
    """The `id` URL returns the identity; an invalid token is refused as by userinfo.

    Source: Identity URLs page, answers of live orgs.
    """
    base = f"{org.headers['instanceurl']}/services/oauth2/userinfo"
    path = "/id/" + org.http.get(base, headers=org.bearer).json()["sub"].rpartition("/id/")[2]
    url = f"{org.headers['instanceurl']}{path}"
    body = org.http.get(url, headers=org.bearer).json()
    assert (body["organization_id"], body["user_id"]) == tuple(path.split("/")[-2:])
    answer = org.http.get(url, headers={"authorization": "Bearer wrong"})
    assert (answer.status_code, answer.text) == (403, "Bad_OAuth_Token")


def test_userinfo_with_a_bad_token(org: OrgUnderTest) -> None:
    """An invalid token gets HTTP 403 and plain text from userinfo. Source: answers of live orgs."""
    bearer = {"authorization": "Bearer wrong"}
    url = f"{org.headers['instanceurl']}/services/oauth2/userinfo"
    answer = org.http.get(url, headers=bearer)
    assert (answer.status_code, answer.text) == (403, "Bad_OAuth_Token")


def test_rest_with_a_bad_token(org: OrgUnderTest) -> None:
    """An invalid token gets HTTP 401 and a REST error. Source: answers of live orgs."""
    bearer = {"authorization": "Bearer wrong"}
    url = f"{org.headers['instanceurl']}/services/data/v62.0/limits"
    answer = org.http.get(url, headers=bearer)
    [error] = answer.json()
    assert answer.status_code == 401
    assert error == {
        "message": "Session expired or invalid",
        "errorCode": "INVALID_SESSION_ID",
    }
