"""The choice of a transport, and the client's errors."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.client.transports import TransportName, client_error, transport_for
from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    ReplayError,
    ReplayIdRefusedError,
    ServerError,
    SfEventsError,
    TopicError,
    TransportError,
    TransportTimeoutError,
)


@pytest.mark.parametrize("chosen", list(TransportName))
@pytest.mark.parametrize("channel", ["/topic/Orders", "/topic/Orders?City=Rome", "/u/Notices"])
def test_push_topics_and_generic_events_use_the_streaming_api(
    channel: str, chosen: TransportName
) -> None:
    """They exist nowhere else, whatever is chosen."""
    assert transport_for(channel, chosen) is TransportName.STREAMING


@pytest.mark.parametrize("chosen", list(TransportName))
@pytest.mark.parametrize("channel", ["/event/Order__e", "/data/ChangeEvents"])
def test_events_and_changes_use_the_chosen_transport(channel: str, chosen: TransportName) -> None:
    """Both transports have them."""
    assert transport_for(channel, chosen) is chosen


@pytest.mark.parametrize("channel", ["", "Order__e", "/meta/connect", "/Event/Order__e"])
def test_another_name_is_no_channel(channel: str) -> None:
    """A name that no transport has is refused before anything is sent."""
    with pytest.raises(ConfigurationError, match="no channel"):
        transport_for(channel, TransportName.PUBSUB)


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


def test_a_server_error_has_the_services_reason() -> None:
    """`ServerError.error_message` is what the service said."""
    error = client_error(TopicError("no access"))
    assert isinstance(error, ServerError)
    assert error.error_message == "no access"
