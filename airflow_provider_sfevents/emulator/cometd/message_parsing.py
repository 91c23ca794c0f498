"""Parse a request: API version, messages, replay id and channel of a subscription.

Sources: Streaming API Developer Guide, "Message Durability" and "Streaming API Error Codes"; texts
as clients of live orgs have logged them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator.cometd import replies
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.http.request_bodies import json_of

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.cometd.replies import Message

MAX_REQUEST_BYTES = 32_768
NEW, ALL = -1, -2
_SUPPORTED = 37.0
_VERSION = re.compile(r"(?:replay/)?(\d{1,3}\.\d)(?:/.*)?")
_LARGEST = 2**63 - 1


class MessageRefusedError(EmulatorError):
    """The message is answered with an error.

    :param error: text of the answer: `<code>::<text>`.
    """

    def __init__(self, error: str) -> None:
        self.error = error
        super().__init__(error)


def version_error(path: str, lowest: float) -> str:
    """Error text for the API version in a URL; empty if it is accepted.

    Versions do not differ here: a version that is no longer supported is served like the newest.

    :param path: path after `/cometd/`; clients may append a word of their own to the version.
    :param lowest: lowest version that is served.
    """
    found = _VERSION.fullmatch(path.strip("/"))
    if found is None:
        return replies.NO_VERSION
    if float(found[1]) >= lowest:
        return ""
    return replies.unsupported_version(max(lowest, _SUPPORTED))


def messages_in(body: bytes) -> list[Message]:
    """Messages of a request body: an array, or a single message.

    :raises ValueError: the body has another form.
    """
    found = json_of(body)
    several = found if isinstance(found, list) else [found]
    if not several or not all(_is_message(one) for one in several):
        raise ValueError("the body is not an array of messages that each have a channel")
    return several


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("channel"), str)


def hold_asked(message: Message, seconds: float) -> float:
    """Seconds that a connect may be held.

    A client may ask for less, in milliseconds, in an advice of its own (Bayeux 1.0).
    """
    advice = message.get("advice")
    asked = advice.get("timeout") if isinstance(advice, dict) else None
    if isinstance(asked, bool) or not isinstance(asked, int | float):
        return seconds
    return max(0.0, min(asked, seconds * 1000) / 1000)


def channel_asked(message: Message) -> str:
    """Channel to subscribe to.

    :raises MessageRefusedError: the name is missing or is not allowed.
    """
    name = message.get("subscription")
    if not isinstance(name, str) or not name.strip():
        raise MessageRefusedError("400::Channel name not specified")
    if not name.startswith("/"):
        raise MessageRefusedError("400::Channel subscriptions must start with a leading '/'")
    if name.startswith(("/meta/", "/service/")) or "*" in name:
        raise MessageRefusedError("403::Restricted channel")
    return name


def replay_asked(message: Message, channel: str, *, spaces: int) -> int:
    """Replay id after which a subscription starts: NEW, ALL or a position.

    NEW also applies without the extension.

    :param spaces: number of spaces between the sentences of the refusal.
    :raises MessageRefusedError: the map does not name the channel, or the value is not a replay id.
    """
    ext = message.get("ext")
    asked = ext.get("replay") if isinstance(ext, dict) else None
    if not isinstance(asked, dict):
        return NEW
    if channel not in asked:
        raise MessageRefusedError(_no_replay_id(channel, asked))
    replay_id = asked[channel]
    if type(replay_id) is not int or not ALL <= replay_id <= _LARGEST:
        raise MessageRefusedError(invalid_replay_id(replay_id, spaces=spaces))
    return replay_id


def invalid_replay_id(replay_id: object, *, spaces: int) -> str:
    return (
        f"400::The replayId {{{replay_id}}} you provided was invalid.{' ' * spaces}Please provide "
        "a valid ID, -2 to replay "
        "all events, or -1 to replay only new events."
    )


def _no_replay_id(channel: str, asked: dict[str, Any]) -> str:
    as_java = ", ".join(f"{name}={replay_id}" for name, replay_id in asked.items())
    return (
        f"400::The replayId for channel {{{channel}}} wasn't found using the provided replay ID "
        f"map {{{{{as_java}}}}}. Ensure "
        "that the channel name you provided in the replay map is valid and matches the channel "
        "name used for subscribing."
    )
