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
    """An id of 15 characters with the three that say which of its letters are capitals, five at a time."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
    chunks = (record_id[at : at + 5] for at in (0, 5, 10))
    bits = (sum(one.isupper() << place for place, one in enumerate(chunk)) for chunk in chunks)
    return record_id + "".join(digits[each] for each in bits)


def _said(answer: httpx.Response) -> tuple[int, str, str]:
    body = answer.json()
    return answer.status_code, body["error"], body["error_description"]


@pytest.mark.parametrize("auth", GRANTS)
def test_each_grant_gives_a_token(org: OrgUnderTest, auth: str) -> None:
    """With the keys of the flow's own page; `expires_in` is never among them.

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
    """None of these four does. Source: OAuth flow pages of Salesforce Help."""
    assert "refresh_token" not in _login(org, auth).json()


@pytest.mark.parametrize("auth", GRANTS)
def test_the_token_begins_with_the_org(org: OrgUnderTest, auth: str) -> None:
    """15 characters of the org's id, an exclamation mark, the rest. Source: tokens of live orgs."""
    head, mark, _ = _login(org, auth).json()["access_token"].partition("!")
    assert (head, mark) == (org.headers["tenantid"][:15], "!")


@pytest.mark.parametrize("auth", GRANTS)
def test_the_id_url_names_org_and_user(org: OrgUnderTest, auth: str) -> None:
    """`https://login.salesforce.com/id/<org>/<user>`, of a sandbox `test`; 18 characters each.

    Source: Identity URLs page.
    """
    host, _, rest = _login(org, auth).json()["id"].partition("/id/")
    org_id, user_id = rest.split("/")
    assert host in {"https://login.salesforce.com", "https://test.salesforce.com"}
    assert org_id[:15] == org.headers["tenantid"][:15]
    assert user_id[:3] == "005"
    assert [_longer(one[:15]) for one in (org_id, user_id)] == [org_id, user_id]


@pytest.mark.parametrize("auth", GRANTS)
def test_the_instance_url_has_no_path(org: OrgUnderTest, auth: str) -> None:
    """It is the My Domain URL, as the header `instanceurl` wants it.

    Source: OAuth flow pages of Salesforce Help.
    """
    url = urlsplit(_login(org, auth).json()["instance_url"])
    assert (bool(url.scheme), bool(url.netloc), url.path) == (True, True, "")


@pytest.mark.parametrize("auth", GRANTS)
def test_the_time_of_issue_is_text_of_milliseconds(org: OrgUnderTest, auth: str) -> None:
    """Where it is given. Source: OAuth flow pages of Salesforce Help."""
    body = _login(org, auth).json()
    if "issued_at" in body:
        assert abs(int(body["issued_at"]) / 1000 - time.time()) < 3600


@pytest.mark.parametrize("auth", GRANTS)
def test_all_but_the_password_grant_name_the_scope(org: OrgUnderTest, auth: str) -> None:
    """In one text with spaces. Source: OAuth flow pages of Salesforce Help."""
    scope = _login(org, auth).json().get("scope")
    assert ("api" in scope.split()) if auth != "password" else scope is None


def test_the_secret_may_come_by_http_basic(org: OrgUnderTest) -> None:
    """Instead of in the form. Source: OAuth 2.0 Client Credentials Flow page."""
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
    """Each is told with its reason. Source: answers of live orgs, answers of the community."""
    with org.set_up("its app would have to be set up wrongly", **knobs) as other:
        door = other.by("client_credentials")
        status, _, description = _said(token(other.http, door.host, door.form()))
    assert (status, description) == (400, said)


def test_the_answer_may_not_be_stored(org: OrgUnderTest) -> None:
    """`Cache-Control: no-store`. Source: OAuth 2.0 pages of Salesforce Help."""
    org.need_grant(*GRANTS)
    answer = token(org.http, org.door.host, org.door.form())
    assert "no-store" in answer.headers["cache-control"]


def test_client_credentials_need_the_my_domain_host(org: OrgUnderTest) -> None:
    """The login host refuses them. Source: answers of live orgs."""
    door = org.by("client_credentials")
    login = str(org.emulator.login_url) if org.emulator else "https://login.salesforce.com"
    assert _said(token(org.http, login, door.form())) == (
        400,
        "invalid_grant",
        "request not supported on this domain",
    )


def test_a_wrong_secret_is_refused(org: OrgUnderTest) -> None:
    """Source: answers of live orgs."""
    door = org.by("client_credentials")
    answer = token(org.http, door.host, {**door.form(), "client_secret": "wrong"})
    assert _said(answer) == (400, "invalid_client", "invalid client credentials")


def test_an_unknown_consumer_key_is_refused(org: OrgUnderTest) -> None:
    """Source: answers of live orgs."""
    door = org.by("client_credentials")
    answer = token(org.http, door.host, {**door.form(), "client_id": "3MVG9nobody"})
    assert _said(answer) == (400, "invalid_client_id", "client identifier invalid")


def test_another_grant_is_refused(org: OrgUnderTest) -> None:
    """Source: OAuth 2.0 Authorization Errors page, answers of live orgs."""
    answer = token(org.http, org.door.host, {"grant_type": "magic"})
    assert _said(answer) == (400, "unsupported_grant_type", "grant type not supported")


def test_a_wrong_password_is_refused(org: OrgUnderTest) -> None:
    """Source: answers of live orgs."""
    with org.set_up(
        "it would count as a failed login, and some of those lock the user out"
    ) as other:
        door = other.by("password")
        answer = token(other.http, door.host, {**door.form(), "password": "wrong"})
        assert _said(answer) == (400, "invalid_grant", "authentication failure")


def test_a_dead_refresh_token_is_refused(org: OrgUnderTest) -> None:
    """Source: OAuth 2.0 Authorization Errors page."""
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
    """Source: OAuth 2.0 Authorization Errors page for the audience, answers of live orgs for the time."""
    door = org.by("jwt_bearer")
    assert _said(_bearer(org, door, door.assertion(**claims))) == (400, "invalid_grant", why)


def test_rubbish_is_no_assertion(org: OrgUnderTest) -> None:
    """Source: community answers."""
    door = org.by("jwt_bearer")
    found = _said(_bearer(org, door, f"{door.assertion()[:-8]}AAAAAAAA"))
    assert found == (400, "invalid_grant", "invalid assertion")


def test_an_assertion_may_be_good_for_five_minutes(org: OrgUnderTest) -> None:
    """The page says three; Salesforce's Node client sends five. Source: that client."""
    door = org.by("jwt_bearer")
    answer = _bearer(org, door, door.assertion(exp=int(time.time()) + 295))
    assert answer.status_code == 200


def test_an_assertion_may_not_be_good_for_more_than_three_minutes(org: OrgUnderTest) -> None:
    """Source: OAuth 2.0 JWT Bearer Flow page."""
    door = org.by("jwt_bearer")
    answer = _bearer(org, door, door.assertion(exp=int(time.time()) + 295))
    assert answer.status_code == 400


def _bearer(org: OrgUnderTest, door: Door, assertion: str) -> httpx.Response:
    return token(org.http, door.host, {"grant_type": JWT_GRANT, "assertion": assertion})


# --- what a token opens ---------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["login", "instance"])
def test_userinfo_names_org_and_user(org: OrgUnderTest, host: str) -> None:
    """On the login host and on the instance. Source: User Info endpoint page, known clients."""
    login = str(org.emulator.login_url) if org.emulator else org.door.host
    url = login if host == "login" else org.headers["instanceurl"]
    bearer = {"authorization": f"Bearer {org.headers['accesstoken']}"}
    body = org.http.get(f"{url}/services/oauth2/userinfo", headers=bearer).json()
    assert body["organization_id"][:15] == org.headers["tenantid"][:15]
    assert len(body["organization_id"]) == 18
    assert {"sub", "user_id", "preferred_username", "name", "email", "urls"} <= set(body)


def test_userinfo_tells_where_things_are(org: OrgUnderTest) -> None:
    """By URLs with a place for the version; `sub` is the URL of the identity.

    Source: User Info endpoint page, known clients.
    """
    url = f"{org.headers['instanceurl']}/services/oauth2/userinfo"
    body = org.http.get(url, headers=org.bearer).json()
    assert body["urls"]["rest"].endswith("/services/data/v{version}/")
    assert body["urls"]["custom_domain"] == org.headers["instanceurl"]
    assert body["sub"].split("/")[-3:] == ["id", body["organization_id"], body["user_id"]]


def test_the_token_may_be_an_argument(org: OrgUnderTest) -> None:
    """`oauth_token`, in the query. Source: User Info endpoint page."""
    url = f"{org.headers['instanceurl']}/services/oauth2/userinfo"
    answer = org.http.get(url, params={"oauth_token": org.headers["accesstoken"]})
    assert answer.json()["organization_id"][:15] == org.headers["tenantid"][:15]


def test_the_identity_can_be_asked_for(org: OrgUnderTest) -> None:
    """By the path of the `id` URL; a bad token is told as by userinfo.

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
    """HTTP 403 and a word of plain text. Source: answers of live orgs."""
    bearer = {"authorization": "Bearer wrong"}
    url = f"{org.headers['instanceurl']}/services/oauth2/userinfo"
    answer = org.http.get(url, headers=bearer)
    assert (answer.status_code, answer.text) == (403, "Bad_OAuth_Token")


def test_rest_with_a_bad_token(org: OrgUnderTest) -> None:
    """HTTP 401 and an error as all of REST has them. Source: answers of live orgs."""
    bearer = {"authorization": "Bearer wrong"}
    url = f"{org.headers['instanceurl']}/services/data/v62.0/limits"
    answer = org.http.get(url, headers=bearer)
    [error] = answer.json()
    assert answer.status_code == 401
    assert error == {
        "message": "Session expired or invalid",
        "errorCode": "INVALID_SESSION_ID",
    }
