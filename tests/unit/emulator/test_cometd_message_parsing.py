"""Bodies, versions, channels and replay ids are parsed and refused as Salesforce does."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.emulator.cometd.message_parsing import (
    MessageRefusedError,
    channel_asked,
    hold_asked,
    messages_in,
    replay_asked,
    version_error,
)

TOPIC = "/event/X__e"


@pytest.mark.parametrize(
    ("path", "lowest", "supported"),
    [("36.0", 37.0, 37.0), ("replay/36.0", 37.0, 37.0), ("22.0", 23.0, 37.0), ("39.0", 40.0, 40.0)],
)
def test_old_versions(path: str, lowest: float, supported: float) -> None:
    """A refusal names the lowest supported version, even if older ones are routed."""
    assert version_error(path, lowest) == (
        f"400::Unsupported API version. Only API versions '{supported}' and later are supported. "
        "URI format: '/cometd/66.0'"
    )


def test_bodies() -> None:
    """A body is an array of messages or a single message."""
    message = {"channel": "/meta/connect"}
    assert messages_in(b'[{"channel":"/meta/connect"}]') == [message]
    assert messages_in(b'{"channel":"/meta/connect"}') == [message]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"[1]", b'[{"id":"1"}]', b'{"channel":1}', b"\xff", b"[" * 32_000]
)
def test_bodies_that_are_none(body: bytes) -> None:
    """A body that is not JSON or no message is refused as a whole."""
    with pytest.raises(ValueError):  # noqa: PT011 - json's own error, or ours
        messages_in(body)


@pytest.mark.parametrize(
    ("subscription", "error"),
    [
        (None, "400::Channel name not specified"),
        ("", "400::Channel name not specified"),
        (["/event/X__e"], "400::Channel name not specified"),
        ("event/X__e", "400::Channel subscriptions must start with a leading '/'"),
        ("/meta/connect", "403::Restricted channel"),
        ("/event/*", "403::Restricted channel"),
    ],
)
def test_channels_that_cannot_be(subscription: Any, error: str) -> None:
    """Each invalid channel name has a text of its own."""
    with pytest.raises(MessageRefusedError) as refused:
        channel_asked({"channel": "/meta/subscribe", "subscription": subscription})
    assert refused.value.error == error


def _asked(ext: Any, spaces: int = 2) -> int:
    message = {"channel": "/meta/subscribe", "subscription": TOPIC}
    return replay_asked(
        {**message, "ext": ext} if ext is not None else message, TOPIC, spaces=spaces
    )


@pytest.mark.parametrize(
    ("ext", "replay_id"),
    [
        (None, -1),
        ({}, -1),
        ({"replay": True}, -1),
        ({"replay": {TOPIC: -1}}, -1),
        ({"replay": {TOPIC: -2, "/event/Y__e": 5}}, -2),
        ({"replay": {TOPIC: 4711}}, 4711),
    ],
)
def test_replay_ids(ext: Any, replay_id: int) -> None:
    """The replay id comes from the map; without a map only new events are delivered."""
    assert _asked(ext) == replay_id


@pytest.mark.parametrize("replay_id", [-3, "82", 1.5, True, None, 2**63])
@pytest.mark.parametrize("spaces", [1, 2])
def test_replay_ids_that_cannot_be(replay_id: Any, spaces: int) -> None:
    """An invalid replay id is refused in braces, with the knob's number of spaces."""
    with pytest.raises(MessageRefusedError) as refused:
        _asked({"replay": {TOPIC: replay_id}}, spaces)
    assert refused.value.error == (
        f"400::The replayId {{{replay_id}}} you provided was invalid.{' ' * spaces}Please provide "
        "a valid ID, -2 to replay "
        "all events, or -1 to replay only new events."
    )


@pytest.mark.parametrize(
    ("asked", "shown"),
    [({}, "{{}}"), ({"/event/x__e": -2, "/u/Y": 1}, "{{/event/x__e=-2, /u/Y=1}}")],
)
def test_a_map_without_the_channel(asked: dict[str, int], shown: str) -> None:
    """The map's key must equal the subscription's name; the refusal shows the map."""
    with pytest.raises(MessageRefusedError) as refused:
        _asked({"replay": asked})
    assert refused.value.error == (
        f"400::The replayId for channel {{/event/X__e}} wasn't found using the provided replay ID "
        f"map {shown}. Ensure that "
        "the channel name you provided in the replay map is valid and matches the channel name "
        "used for subscribing."
    )


@pytest.mark.parametrize(
    ("advice", "seconds"),
    [
        (None, 110.0),
        ({}, 110.0),
        ({"timeout": 0}, 0.0),
        ({"timeout": 500}, 0.5),
        ({"timeout": 200_000}, 110.0),
        ({"timeout": -5}, 0.0),
        ({"timeout": 10**400}, 110.0),
        ({"timeout": "0"}, 110.0),
        ({"timeout": True}, 110.0),
        ([], 110.0),
    ],
)
def test_how_long_a_connect_is_held(advice: Any, seconds: float) -> None:
    """A connect is held for its full time, or less if the client asks for less."""
    assert hold_asked({"channel": "/meta/connect", "advice": advice}, 110.0) == seconds
