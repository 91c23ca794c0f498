"""Logins with a password or a refresh token, and all their refusals, as Salesforce has them."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs

Http = Callable[..., Any]
TOKEN = "/services/oauth2/token"


def _form(bus: Emulator, grant: str, **changed: str) -> dict[str, str]:
    org = bus.org
    own = {
        "password": {
            "client_secret": org.consumer_secret,
            "username": org.username,
            "password": org.password + org.security_token,
        },
        "refresh_token": {"refresh_token": org.refresh_token},
        "client_credentials": {"client_secret": org.consumer_secret},
    }[grant]
    return {"grant_type": grant, "client_id": org.consumer_key, **own, **changed}


def _refusal(answer: Any) -> tuple[int, str, str]:
    return answer.status, answer.body["error"], answer.body["error_description"]


def test_a_refresh_token_with_and_without_the_secret(http: Http) -> None:
    """The secret is optional by the app's setting; a wrong one is refused."""
    with Emulator() as bus:
        url = bus.login_url + TOKEN
        assert (
            http(url, _form(bus, "refresh_token", client_secret=bus.org.consumer_secret))[0] == 200
        )
        wrong = http(url, _form(bus, "refresh_token", client_secret="wrong"))
        assert _refusal(wrong) == (400, "invalid_client", "invalid client credentials")
    with Emulator(knobs=Knobs(refresh_needs_secret=True)) as bus:
        url = bus.login_url + TOKEN
        assert _refusal(http(url, _form(bus, "refresh_token")))[1] == "invalid_client"
        pair = base64.b64encode(
            f"{bus.org.consumer_key}:{bus.org.consumer_secret}".encode()
        ).decode()
        form = {"grant_type": "refresh_token", "refresh_token": bus.org.refresh_token}
        assert http(url, form, headers={"Authorization": f"Basic {pair}"}).status == 200


@pytest.mark.parametrize(
    ("grant", "changed", "error", "description"),
    [
        ("password", {"username": "x@y.z"}, "invalid_grant", "authentication failure"),
        ("password", {"client_id": "x"}, "invalid_client_id", "client identifier invalid"),
        ("password", {"client_secret": "x"}, "invalid_client", "invalid client credentials"),
        ("refresh_token", {"client_id": "x"}, "invalid_client_id", "client identifier invalid"),
    ],
)
def test_refused(
    http: Http, grant: str, changed: dict[str, str], error: str, description: str
) -> None:
    """Each mistake has its error and text, with HTTP 400."""
    with Emulator() as bus:
        answer = http(bus.login_url + TOKEN, _form(bus, grant, **changed))
        assert _refusal(answer) == (400, error, description)


def test_a_password_without_its_security_token(http: Http) -> None:
    """A password needs the security token after it."""
    with Emulator() as bus:
        answer = http(bus.login_url + TOKEN, _form(bus, "password", password=bus.org.password))
        assert _refusal(answer)[2] == "authentication failure"


def test_what_befalls_a_user_and_a_refresh_token(http: Http) -> None:
    """A locked user and a revoked refresh token cannot log in."""
    with Emulator() as bus:
        url = bus.my_domain_url + TOKEN
        bus.lock_out(bus.org.username)
        assert _refusal(http(url, _form(bus, "password")))[2] == "authentication failure"
        assert http(url, _form(bus, "client_credentials")).status == 200
        bus.unlock(bus.org.username)
        assert http(url, _form(bus, "password")).status == 200
        bus.revoke(bus.org.refresh_token)
        dead = http(url, _form(bus, "refresh_token"))
        assert _refusal(dead) == (400, "invalid_grant", "expired access/refresh token")


@pytest.mark.parametrize("where", ["login_url", "my_domain_url"])
def test_the_identity_url(http: Http, where: str) -> None:
    """Both hosts return a token's user, only on that user's own URL."""
    with Emulator() as bus:
        token = http(bus.login_url + TOKEN, _form(bus, "password")).body["access_token"]
        own = f"{getattr(bus, where)}/id/{bus.org.org_id}/{bus.org.user_id}"
        body = http(own, headers={"Authorization": f"Bearer {token}"}).body
        assert (body["username"], body["user_id"]) == (bus.org.username, bus.org.user_id)
        assert (body["organization_id"], body["asserted_user"]) == (bus.org.org_id, True)
        assert body["urls"]["partner"].endswith(
            f"/services/Soap/u/{{version}}/{bus.org.org_id[:15]}"
        )
        assert http(f"{own}?oauth_token={token}").body == body
        assert http(own, {"oauth_token": token}).body == body
        other = bus.add_org()
        not_own = f"{getattr(bus, where)}/id/{other.org_id}/{other.user_id}"
        for url, sent in ((own, "nope"), (not_own, token)):
            bad = http(url, headers={"Authorization": f"Bearer {sent}"})
            assert (bad.status, bad.body) == (403, "Bad_OAuth_Token")


def test_secrets_outlive_a_restart(tmp_path: Any) -> None:
    """Password, security token and refresh token survive a restart."""
    seen = []
    for _ in range(2):
        with Emulator(folder=tmp_path) as bus:
            seen.append((bus.org.password, bus.org.security_token, bus.org.refresh_token))
            assert bus.org.password not in repr(bus.org.identity)
    assert seen[0] == seen[1]


def test_connections_for_the_new_logins() -> None:
    """Each connection has what its client needs, on the host that accepts it."""
    with Emulator() as bus:
        org = bus.org
        app = (bus.login_url, org.consumer_key, org.consumer_secret)
        by_password = bus.connection("password")
        assert (by_password["host"], by_password["login"], by_password["password"]) == app
        extra = by_password["extra"]
        assert (extra["username"], extra["user_password"]) == (org.username, org.password)
        assert extra["security_token"] == org.security_token
        refreshed = bus.connection("refresh_token")
        assert (refreshed["host"], refreshed["login"], refreshed["password"]) == app
        assert refreshed["extra"]["refresh_token"] == org.refresh_token
        soap = bus.connection("soap")
        assert (soap["login"], soap["password"]) == (org.username, org.password)
        assert soap["extra"]["security_token"] == org.security_token
