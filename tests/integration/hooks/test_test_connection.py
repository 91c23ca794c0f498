"""The test-connection button: its answer, its time, and no secret in it."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from airflow.models.connection import Connection

from airflow_provider_sfevents.hooks.connection import AUTHS
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_sfevents.emulator import Emulator

PATIENCE_SECONDS = 25.0


def answer_of(conn_id: str) -> tuple[bool, str]:
    """Return the hook's answer, which comes long before a call's tries are used up (32 s)."""
    began = time.monotonic()
    answer = SfEventsHook(conn_id).test_connection()
    assert time.monotonic() - began < PATIENCE_SECONDS
    return answer


@pytest.mark.parametrize("auth", AUTHS)
def test_a_good_connection_says_what_was_reached(
    bus: Emulator, connect: Callable[..., str], auth: str
) -> None:
    """The answer for a good connection names org, host and API, and costs no event."""
    good, message = answer_of(connect(bus.connection(auth)))
    assert good, message
    for part in (bus.org.org_id, bus.org.instance_url, bus.endpoint):
        assert part in message
    assert ("Summer '27" in message) is (auth == "soap")
    assert bus.deliveries() == 0


def test_a_good_connection_of_the_stock_type(bus: Emulator, connect: Callable[..., str]) -> None:
    """A connection that works with the Salesforce provider's hook works here, too."""
    stock = {"consumer_key": bus.org.consumer_key, "consumer_secret": bus.org.consumer_secret}
    extra = {"instance_url": bus.org.instance_url, **stock}
    values = {**bus.connection(), "conn_type": "salesforce", "host": "", "login": ""}
    good, message = answer_of(connect(values, extra, password=""))
    assert good, message
    assert bus.org.org_id in message


@pytest.mark.parametrize(
    ("over", "extra", "said"),
    [
        ({"password": "not-the-secret"}, {}, "consumer secret is wrong"),
        ({"login": "not-the-consumer-key"}, {}, "does not know this consumer key"),
        ({"password": ""}, {}, "no consumer secret"),
        ({"host": "http://127.0.0.1:1"}, {}, "http://127.0.0.1:1 cannot be reached"),
        ({"host": "https://acme.my.salesforce.invalid"}, {}, "cannot be reached"),
        ({"port": 1}, {}, "127.0.0.1:1"),
        ({}, {"plaintext": False}, "does not speak TLS"),
        ({}, {"ca_file": "/nowhere/ca.pem", "plaintext": False}, "/nowhere/ca.pem"),
        ({}, {"auth": "passwort"}, "unknown login 'passwort'"),
        ({"conn_type": "http"}, {}, "is of type 'http'"),
        ({"conn_type": "salesforce", "password": ""}, {}, "its fields make no login"),
        ({"login": "unknown@acme.example"}, {"auth": "soap"}, "INVALID_LOGIN"),
    ],
    ids=[
        "secret", "key", "no secret", "refused", "unresolvable", "endpoint", "no tls", "ca file",
        "auth", "type", "stock", "soap",
    ],
)  # fmt: skip
def test_a_bad_connection_says_what_to_change(
    bus: Emulator,
    connect: Callable[..., str],
    over: dict[str, Any],
    extra: dict[str, Any],
    said: str,
) -> None:
    """The answer for a bad connection has the cause and the remedy, without any secret."""
    good, message = answer_of(connect(bus.connection(), extra, **over))
    assert not good
    assert said in message
    for secret in (bus.org.consumer_secret, "not-the-secret"):
        assert secret not in message


@pytest.fixture
def silent() -> Iterator[str]:
    """Host and port that accept connections and never answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"127.0.0.1:{listening.getsockname()[1]}"


@pytest.mark.parametrize("where", ["login", pytest.param("api", marks=pytest.mark.full)])
def test_silence_is_an_answer_too(
    bus: Emulator, connect: Callable[..., str], silent: str, where: str
) -> None:
    """A host that does not answer is given up before the UI's own timeout."""
    good, message = answer_of(
        connect(bus.connection(), host=f"http://{silent}")
        if where == "login"
        else connect(bus.connection(), port=int(silent.rpartition(":")[2]))
    )
    assert not good
    assert "network" in message or "way open" in message


@pytest.mark.filterwarnings("ignore:ProvidersManager.hooks is deprecated")  # by Airflow itself
@pytest.mark.parametrize("auth", AUTHS)
def test_as_airflow_calls_it(bus: Emulator, monkeypatch: pytest.MonkeyPatch, auth: str) -> None:
    """`POST /connections/test` tests the form's connection, passed as a URI."""
    values = bus.connection(auth)
    form = Connection(conn_id="of_the_moment", **{**values, "extra": json.dumps(values["extra"])})
    monkeypatch.setenv("AIRFLOW_CONN_OF_THE_MOMENT", form.get_uri())
    good, message = form.test_connection()
    assert good, message
    assert bus.org.org_id in message


def test_an_extra_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extra that cannot be parsed is an error, though Airflow treats it as empty."""
    extra = "auth: session, session_token: hush-hush"
    stored = {"conn_type": "sfevents", "host": "acme.example", "login": "k", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_SF_TEST", json.dumps({**stored, "password": "a-secret"}))
    good, message = answer_of("sf_test")
    assert (good, message.partition(",")[0]) == (
        False,
        "connection 'sf_test': its extra is no JSON",
    )
    assert "hush" not in message
