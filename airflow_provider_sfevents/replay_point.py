"""Replay point: the start of a subscription. Its text stands in positions, manifests and arguments.

Pure. `earliest` is the oldest event that the bus still holds. `latest` is the moment of the
subscription, so it resolves to a different replay id each time. A replay id is opaque: it is
compared for equality, and never computed with.

Over the Streaming API nothing but an event has a replay id, so `latest` resolves to a time: the
subscription begins at `earliest`, and events that were created before are passed over. Its text is
`since:2026-01-31T08:30:00+00:00`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from typing_extensions import override

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError

# Live ids have 10 bytes, those of before September 2022 had 8.
_REPLAY_ID_BYTES = (8, 10)
# Salesforce promises nothing about later ids, but none will be near this length.
_MAX_REPLAY_ID_BYTES = 128
_SINCE = "since:"
_HEX = re.compile(r"(?:[0-9a-f]{2})+")


@dataclass(frozen=True, slots=True)
class ReplayPoint:
    """Start of a subscription: `EARLIEST`, `LATEST`, a time, or strictly after a replay id.

    :param text: `earliest`, `latest`, `since:` with a time, or the replay id in lower-case hex;
        `from_text` checks it.
    """

    text: str

    @classmethod
    def from_text(cls, text: Any) -> ReplayPoint:
        """Parse a text of a position, a manifest or an argument.

        :raises ConfigurationError: it is neither a preset nor a replay id in lower-case hex.
        """
        if isinstance(text, str) and cls.is_valid(text):
            return cls(text)
        shown = text[:80] if isinstance(text, str) else text
        raise ConfigurationError(
            f"The start {shown!r} is no replay id. Give 'earliest', 'latest', or a replay id as an "
            "even number of lower-case hex digits, as positions and manifests show it."
        )

    @staticmethod
    def is_valid(text: str) -> bool:
        """Return whether `from_text` accepts the text."""
        return text in PRESETS or is_replay_id(text) or _is_since(text)

    @classmethod
    def given(cls, text: Any) -> ReplayPoint:
        """Parse a text that a user gives: a replay id has a length that Salesforce's ids have had.

        A replay id that came from Salesforce may have any length (`from_text`).

        :raises ConfigurationError: it is no start, or a replay id that no event can have.
        """
        point = cls.from_text(text)
        if text in PRESETS or len(text) // 2 in _REPLAY_ID_BYTES:
            return point
        raise ConfigurationError(
            f"The start {text!r} is no replay id of Salesforce: it has "
            f"{counted(len(text) // 2, 'byte')}, and theirs have 8 or 10 (16 or 20 hex digits). "
            "Copy one from a position or a manifest, or give 'earliest' or 'latest'."
        )

    @classmethod
    def after(cls, replay_id: bytes) -> ReplayPoint:
        """Return the replay point after an event or keepalive of the service."""
        return cls(replay_id.hex())

    @classmethod
    def since(cls, time: datetime) -> ReplayPoint:
        """Return the replay point of events that were created at or after a time.

        :param time: aware.
        """
        return cls(_SINCE + time.isoformat())

    @property
    def not_before(self) -> datetime | None:
        """Creation time before which events are passed over; None: it has none."""
        if not self.text.startswith(_SINCE):
            return None
        return datetime.fromisoformat(self.text.removeprefix(_SINCE))

    def to_text(self) -> str:
        return self.text

    @override
    def __str__(self) -> str:
        return self.text

    @property
    def is_replay_id(self) -> bool:
        """True if it is after one event or keepalive."""
        return self.text not in PRESETS and not self.text.startswith(_SINCE)


EARLIEST = ReplayPoint("earliest")
LATEST = ReplayPoint("latest")
PRESETS = (EARLIEST.text, LATEST.text)


def is_replay_id(text: str) -> bool:
    """Return whether the text can be a replay id: lower-case hex, as text forms are compared."""
    return _HEX.fullmatch(text) is not None and len(text) <= 2 * _MAX_REPLAY_ID_BYTES


def _is_since(text: str) -> bool:
    try:
        time = ReplayPoint(text).not_before
    except ValueError:
        return False
    return time is not None and time.tzinfo is not None


def replay_id_hex(replay_id: object) -> str:
    """Return a replay id in lower-case hex, from bytes or hex.

    :raises ConfigurationError: it is neither.
    """
    text = replay_id.hex() if isinstance(replay_id, bytes) else replay_id
    if isinstance(text, str) and is_replay_id(text.lower()):
        return text.lower()
    raise ConfigurationError(
        f"{str(replay_id)[:80]!r} is no replay id. Give the bytes of a delivery, such as its "
        "`resume_after`, or the same in hex."
    )
