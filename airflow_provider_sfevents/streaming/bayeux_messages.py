"""Messages of the Bayeux protocol as Salesforce speaks it: made, split and read. Pure.

Source: Streaming API Developer Guide, "Message Durability" and "Streaming API Error Codes"; the
Bayeux specification 1.0 for the form of the messages.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.replay_point import EARLIEST, LATEST, ReplayPoint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Message = dict[str, Any]

HANDSHAKE, CONNECT = "/meta/handshake", "/meta/connect"
SUBSCRIBE, UNSUBSCRIBE, DISCONNECT = "/meta/subscribe", "/meta/unsubscribe", "/meta/disconnect"

MOST_BYTES = 32_768
"""Bytes of a request; the service answers 413 to more."""

NEW_EVENTS, ALL_EVENTS = -1, -2
"""Values of the replay extension that are no ids."""

_ID_BYTES = 8
_SPACE = re.compile(r"[\s,]*")


class StreamedEvent(NamedTuple):
    """An event as a message brought it.

    :param channel: as it was subscribed to; with a filter, as `/topic/Name?Field=value`.
    :param replay_id: None: the message has none.
    :param message: parsed.
    :param text: JSON of the message, as it was received.
    """

    channel: str
    replay_id: int | None
    message: Mapping[str, Any]
    text: str


def replay_value(start: ReplayPoint) -> int:
    """The replay extension's value for a start.

    A position stores the whole number of an event as 8 bytes in hex.
    """
    if start == LATEST:
        return NEW_EVENTS
    return ALL_EVENTS if start == EARLIEST else int(start.to_text(), 16)


def point_after(replay_id: int) -> ReplayPoint:
    """The replay point after an event of the Streaming API."""
    return ReplayPoint.after(replay_id.to_bytes(_ID_BYTES, "big"))


def handshake() -> Message:
    return {
        "channel": HANDSHAKE,
        "version": "1.0",
        "minimumVersion": "1.0",
        "supportedConnectionTypes": ["long-polling"],
        "ext": {"replay": True},
    }


def connect(client_id: str) -> Message:
    return {"channel": CONNECT, "clientId": client_id, "connectionType": "long-polling"}


def subscribe(client_id: str, channel: str, replay: int) -> Message:
    """A subscription; the key of the replay map is the channel without a filter."""
    return {
        "channel": SUBSCRIBE,
        "clientId": client_id,
        "subscription": channel,
        "ext": {"replay": {channel.partition("?")[0]: replay}},
    }


def unsubscribe(client_id: str, channel: str) -> Message:
    return {"channel": UNSUBSCRIBE, "clientId": client_id, "subscription": channel}


def disconnect(client_id: str) -> Message:
    return {"channel": DISCONNECT, "clientId": client_id}


def split(
    messages: Iterable[Message],
    most_bytes: int = MOST_BYTES,
    dumps: Callable[[Any], str] = json.dumps,
) -> list[bytes]:
    """Bodies of requests with these messages in order, each within the service's limit."""
    bodies: list[list[bytes]] = []
    used = 0
    for message in messages:
        body = dumps(message).encode()
        if not bodies or used + len(body) + 1 > most_bytes:
            bodies.append([])
            used = 2
        bodies[-1].append(body)
        used += len(body) + 1
    return [b"[" + b",".join(body) + b"]" for body in bodies]


def read(text: str, loads: Callable[[str], Any] = json.loads) -> list[tuple[Message, str]]:
    """The messages of an answer, each with its own JSON.

    :raises TransportError: the answer is no array of messages.
    """
    decoder = json.JSONDecoder()
    found: list[tuple[Message, str]] = []
    try:
        start = len(text) - len(text.lstrip().removeprefix("["))
        while text[start := _behind_space(text, start)] != "]":
            message, end = decoder.raw_decode(text, start)
            if not message["channel"].startswith("/"):
                raise ValueError(f"{message['channel']!r} is no channel")  # noqa: TRY301
            found.append((message, text[start:end]))
            start = end
    except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise TransportError(
            f"The answer is not of the Streaming API ({error}): {text[:100]!r}. Is there a proxy "
            "or a sign-on page between?"
        ) from error
    if loads is json.loads:
        return found
    # An error of the user's function is none of the answer's, and asking again would not help.
    return [
        (message if message["channel"].startswith("/meta/") else loads(own), own)
        for message, own in found
    ]


def _behind_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def event_of(message: Message, text: str, channels: Sequence[str]) -> StreamedEvent:
    """The event of a message.

    :param channels: subscribed to. A filtered subscription's messages name its channel with the
        filter, or without it, and then belong to the only subscription there is.
    """
    channel = str(message["channel"])
    if channel not in channels:
        filtered = [one for one in channels if one.partition("?")[0] == channel]
        channel = filtered[0] if len(filtered) == 1 else channel
    data = message.get("data")
    event = data.get("event") if isinstance(data, dict) else None
    replay_id = event.get("replayId") if isinstance(event, dict) else None
    return StreamedEvent(
        channel=channel,
        replay_id=replay_id if isinstance(replay_id, int) else None,
        message=message,
        text=text,
    )
