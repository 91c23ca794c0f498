"""Request forms and answers of the token endpoint."""

from __future__ import annotations

from datetime import UTC, datetime

import httpx
import pytest

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    SfEventsError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import (
    ClientCredentials,
    OAuthLogin,
    RefreshToken,
    UsernamePassword,
)
from airflow_provider_sfevents.pubsub.auth.token_endpoint import form, read_grant

NOW = datetime(2026, 11, 21, tzinfo=UTC)
HOST = "https://acme.my.salesforce.com"


@pytest.mark.parametrize(
    ("login", "asked"),
    [
        pytest.param(
            ClientCredentials(login_url=HOST, client_id="k", client_secret=Secret("s")),
            {"grant_type": "client_credentials", "client_id": "k", "client_secret": "s"},
            id="client credentials",
        ),
        pytest.param(
            RefreshToken(
                login_url=HOST, client_id="k", client_secret=Secret("s"), refresh_token=Secret("r")
            ),
            {
                "grant_type": "refresh_token",
                "client_id": "k",
                "client_secret": "s",
                "refresh_token": "r",
            },
            id="refresh token",
        ),
        pytest.param(
            RefreshToken(login_url=HOST, client_id="k", refresh_token=Secret("r")),
            {"grant_type": "refresh_token", "client_id": "k", "refresh_token": "r"},
            id="refresh token without secret",
        ),
        pytest.param(
            UsernamePassword(
                login_url=HOST,
                client_id="k",
                client_secret=Secret("s"),
                username="u",
                password=Secret(" p "),
                security_token=Secret("T"),
            ),
            {
                "grant_type": "password",
                "client_id": "k",
                "client_secret": "s",
                "username": "u",
                "password": " p T",
            },
            id="password",
        ),
    ],
)
def test_each_flow_asks_for_a_token(login: OAuthLogin, asked: dict[str, str]) -> None:
    """Each flow sends its own fields and no others; the security token follows the password."""
    assert form(login, NOW) == asked


@pytest.mark.parametrize(
    ("status", "answer", "kind"),
    [
        (503, {}, TransportError),
        (429, {}, TransportError),
        (408, {}, TransportError),
        (404, {}, ConfigurationError),
        (400, {"error": "invalid_client_id"}, AuthenticationError),
        (
            400,
            {
                "error": "invalid_grant",
                "error_description": "token request is already being processed",
            },
            TransportError,
        ),
    ],
)
def test_what_passes_is_tried_again(
    status: int, answer: dict[str, str], kind: type[SfEventsError]
) -> None:
    """A host that is busy, or asks to try again, has not refused the login."""
    login = RefreshToken(login_url=HOST, client_id="k", refresh_token=Secret("r"))
    with pytest.raises(SfEventsError) as raised:
        read_grant(httpx.Response(status, json=answer), login, NOW)
    assert type(raised.value) is kind
