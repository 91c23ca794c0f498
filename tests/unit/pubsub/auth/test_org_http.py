"""HTTP clients of an org."""

from __future__ import annotations

import ssl
from typing import Any

import certifi
import pytest

from airflow_provider_sfevents.pubsub.auth.org_http import open_http
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import SessionToken, Settings

URL = "https://org.my.salesforce.com"
LOGIN = SessionToken(token=Secret("00D000000000001!t"), instance_url=URL, org_id="00D000000000001")


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Loads of authorities, which block the event loop."""
    found: list[Any] = []
    load = ssl.SSLContext.load_verify_locations

    def counted(context: ssl.SSLContext, *arguments: Any, **options: Any) -> None:
        found.append(options)
        load(context, *arguments, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", counted)
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    return found


def test_the_usual_authorities_are_loaded_once(loads: list[Any]) -> None:
    """A hundred waits of a triggerer do not load them a hundred times."""
    for _ in range(3):
        open_http(Settings(login=LOGIN), URL, 1.0)
    assert len(loads) <= 1  # other tests of this process may have loaded them


def test_authorities_of_the_environment_are_read_each_time(
    loads: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A company's file may be replaced while a triggerer runs."""
    monkeypatch.setenv("SSL_CERT_FILE", certifi.where())
    for _ in range(2):
        open_http(Settings(login=LOGIN), URL, 1.0)
    assert len(loads) == 2
