"""Requests that the admin API accepts, by their headers."""

from __future__ import annotations

import socket

import pytest

from airflow_provider_sfevents.emulator.http.admin.admin_guard import own_names, refusal

TOKEN = "t0ken"
GOOD = {"host": "127.0.0.1:8080", "authorization": f"Bearer {TOKEN}"}


@pytest.mark.parametrize(
    ("changed", "status"),
    [
        ({}, None),
        ({"host": "localhost:8080"}, None),
        ({"host": "LOCALHOST"}, None),
        ({"host": "[::1]:8080"}, None),
        ({"host": "192.168.0.7:1"}, None),
        ({"host": "emulator.acme.example:8080"}, None),
        ({"authorization": f"bearer  {TOKEN}"}, None),
        ({"origin": "http://127.0.0.1:8080"}, None),
        ({"host": "evil.example"}, 403),
        ({"host": "evil.example:8080"}, 403),
        ({"host": "127.0.0.1.evil.example"}, 403),
        ({"host": "localhost.evil.example"}, 403),
        ({"host": ""}, 403),
        ({"host": "[::1"}, 403),
        ({"origin": "https://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9090"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": ""}, 403),
        ({"authorization": ""}, 401),
        ({"authorization": TOKEN}, 401),
        ({"authorization": f"Basic {TOKEN}"}, 401),
        ({"authorization": "Bearer other"}, 401),
        ({"authorization": "Bearer "}, 401),
        ({"authorization": "Bearer tökén"}, 401),
    ],
)
def test_a_request_needs_host_origin_and_token(changed: dict[str, str], status: int | None) -> None:
    """A request needs an own host name, no other origin, and the token."""
    found = refusal({**GOOD, **changed}, TOKEN, own_names("emulator.acme.example"))
    assert (found and found[0]) == status


def test_a_refusal_says_what_to_do() -> None:
    """A refusal names the host, the origin or the way to the token, never the token."""
    names = own_names("127.0.0.1")
    assert "'evil.example'" in str(refusal({**GOOD, "host": "evil.example"}, TOKEN, names))
    assert "https://x.example" in str(
        refusal({**GOOD, "origin": "https://x.example"}, TOKEN, names)
    )
    without = str(refusal({"host": "localhost"}, TOKEN, names))
    assert "SFEVENTS_EMULATOR_TOKEN" in without
    assert TOKEN not in without


def test_a_wildcard_has_the_names_of_the_machine() -> None:
    """An emulator on all addresses also accepts the machine's host name."""
    assert socket.gethostname().casefold() in own_names("0.0.0.0")  # noqa: S104 - what is tested
    assert socket.gethostname().casefold() not in own_names("127.0.0.1") - {"localhost"}
