"""Logins by app and by assertion, beyond what the contract suite proves."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from airflow_provider_sfevents.emulator import Emulator, Knobs

Http = Callable[..., Any]
TOKEN, USERINFO = "/services/oauth2/token", "/services/oauth2/userinfo"
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"


def _credentials(bus: Emulator, **changed: str) -> dict[str, str]:
    connection = bus.connection()
    good = {
        "grant_type": "client_credentials",
        "client_id": connection["login"],
        "client_secret": connection["password"],
    }
    return {**good, **changed}


def _assertion(
    bus: Emulator, key: str = "", algorithm: str = "RS256", **changed: Any
) -> dict[str, str]:
    connection = bus.connection("jwt_bearer")
    claims = {
        "iss": connection["login"],
        "sub": connection["extra"]["username"],
        "aud": connection["host"],
        "exp": time.time() + 180,
        **changed,
    }
    return {
        "grant_type": GRANT,
        "assertion": jwt.encode(claims, key or connection["extra"]["private_key"], algorithm),
    }


def _refusal(answer: Any) -> tuple[int, str, str]:
    return answer.status, answer.body["error"], answer.body["error_description"]


def test_client_credentials_need_my_domain(http: Http) -> None:
    """The login host refuses client credentials unless the knob allows them."""
    with Emulator() as bus:
        answer = http(bus.login_url + TOKEN, _credentials(bus))
        assert _refusal(answer) == (400, "invalid_grant", "request not supported on this domain")
    with Emulator(knobs=Knobs(client_credentials_on_login_host=True)) as bus:
        assert http(bus.login_url + TOKEN, _credentials(bus)).status == 200


def test_an_app_is_known_in_its_own_org_only(http: Http) -> None:
    """A My Domain does not know another org's app."""
    with Emulator() as bus:
        other = bus.add_org()
        answer = http(other.instance_url + TOKEN, _credentials(bus))
        assert _refusal(answer)[1] == "invalid_client_id"


@pytest.mark.parametrize("where", ["login_url", "my_domain_url"])
def test_jwt_bearer(http: Http, where: str) -> None:
    """A signed assertion is valid on both hosts; its answer has no signature."""
    with Emulator() as bus:
        answer = http(getattr(bus, where) + TOKEN, _assertion(bus))
        assert answer.status == 200
        assert set(answer.body) == {"access_token", "scope", "instance_url", "id", "token_type"}
        assert answer.body["instance_url"] == bus.my_domain_url


@pytest.mark.parametrize(
    "audience", ["https://login.salesforce.com", "https://test.salesforce.com", "my_domain"]
)
def test_jwt_audiences(http: Http, audience: str) -> None:
    """Salesforce's hosts and My Domain are valid audiences."""
    with Emulator() as bus:
        aud = bus.my_domain_url if audience == "my_domain" else audience
        assert http(bus.login_url + TOKEN, _assertion(bus, aud=aud)).status == 200


@pytest.mark.parametrize(
    ("changed", "error", "description"),
    [
        ({"exp": 9_999_999_999}, "invalid_grant", "invalid assertion"),
        ({"iss": "unknown"}, "invalid_client_id", "client identifier invalid"),
        ({"sub": "unknown@example.com"}, "invalid_grant", "user hasn't approved this consumer"),
    ],
)
def test_refused_assertions(
    http: Http, changed: dict[str, Any], error: str, description: str
) -> None:
    """An assertion with a wrong time, app or user gets Salesforce's error."""
    with Emulator() as bus:
        assert _refusal(http(bus.login_url + TOKEN, _assertion(bus, **changed))) == (
            400,
            error,
            description,
        )


def test_assertions_of_another_key_or_kind(http: Http) -> None:
    """A foreign key, a symmetric signature and rubbish are invalid assertions."""
    stranger = (
        rsa.generate_private_key(public_exponent=65537, key_size=2048)
        .private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        .decode()
    )
    with Emulator() as bus:
        forms = [
            _assertion(bus, key=stranger),
            _assertion(bus, key="a secret of more than thirty-two bytes", algorithm="HS256"),
            {"grant_type": GRANT, "assertion": "rubbish"},
            {"grant_type": GRANT},
        ]
        for form in forms:
            assert _refusal(http(bus.login_url + TOKEN, form)) == (
                400,
                "invalid_grant",
                "invalid assertion",
            )


def test_a_skewed_clock(http: Http) -> None:
    """A slow client clock sends expired assertions; an advanced bus clock is no skew."""
    with Emulator(knobs=Knobs(jwt_skew_seconds=400)) as bus:
        assert (
            _refusal(http(bus.login_url + TOKEN, _assertion(bus)))[2]
            == "expired authorization code"
        )
    with Emulator() as bus:
        bus.clock.advance(hours=73)
        assert http(bus.login_url + TOKEN, _assertion(bus)).status == 200


def test_logins_are_recorded(http: Http) -> None:
    """Every login request is in the call log, with its grant and header names."""
    with Emulator() as bus:
        http(bus.my_domain_url + TOKEN, _credentials(bus))
        [call] = bus.requests
        assert (call.rpc, call.subject) == ("token", "client_credentials")
        assert "content-type" in call.metadata
