"""The client's errors."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.client.transports import client_error
from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    QuotaExceededError,
    ReplayError,
    ReplayIdRefusedError,
    ServerError,
    SfEventsError,
    TopicError,
    TransportError,
    TransportTimeoutError,
)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ReplayIdRefusedError("why"), ReplayError),
        (TopicError("why"), ServerError),
        (QuotaExceededError("why"), ServerError),
        (TransportError("why"), TransportTimeoutError),
        (AuthenticationError("why"), AuthenticationError),
    ],
)
def test_errors_have_one_hierarchy(error: SfEventsError, kind: type[SfEventsError]) -> None:
    """A refusal is a ServerError, an unreachable service a TransportTimeoutError."""
    found = client_error(error)
    assert type(found) is kind
    assert str(found) == "why"
