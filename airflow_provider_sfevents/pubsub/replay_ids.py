"""Text forms of a subscription's start: `earliest`, `latest`, or a replay id in lower-case hex.

Pure.
"""

from __future__ import annotations

import re

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError

EARLIEST = "earliest"
LATEST = "latest"

# Live ids have 10 bytes, those of before September 2022 had 8.
_REPLAY_ID_BYTES = (8, 10)
# Salesforce promises nothing about later ids, but none will be near this length.
_MAX_REPLAY_ID_BYTES = 128
_HEX = re.compile(r"(?:[0-9a-f]{2})+")


def check_start(start: str) -> str:
    """Check a start: `earliest`, `latest` or a replay id in lower-case hex.

    :raises ConfigurationError: it is none of these.
    """
    if start in {EARLIEST, LATEST}:
        return start
    if not _HEX.fullmatch(start) or len(start) > 2 * _MAX_REPLAY_ID_BYTES:
        raise ConfigurationError(
            f"The start {start[:80]!r} is no replay id. Give 'earliest', 'latest', or a replay "
            "id as an even number of lower-case hex digits, as positions and manifests show it."
        )
    return start


def check_given_start(start: str) -> str:
    """Check a start that a user gives: a replay id has a length that Salesforce's ids have had.

    An id that came from Salesforce is opaque, and of any length (`check_start`).

    :raises ConfigurationError: it is no start, or a replay id that no event can have.
    """
    if check_start(start) in {EARLIEST, LATEST} or len(start) // 2 in _REPLAY_ID_BYTES:
        return start
    raise ConfigurationError(
        f"The start {start!r} is no replay id of Salesforce: it has "
        f"{counted(len(start) // 2, 'byte')}, and theirs have 8 or 10 (16 or 20 hex digits). "
        "Copy one from a position or a manifest, or give 'earliest' or 'latest'."
    )


def replay_id_hex(replay_id: bytes | str) -> str:
    """A replay id in lower-case hex, from bytes or hex.

    :raises ConfigurationError: it is neither.
    """
    text = replay_id.hex() if isinstance(replay_id, bytes) else replay_id
    if isinstance(text, str):
        text = text.lower()
        if _HEX.fullmatch(text) and len(text) <= 2 * _MAX_REPLAY_ID_BYTES:
            return text
    raise ConfigurationError(
        f"{str(replay_id)[:80]!r} is no replay id. Give the bytes of a delivery, such as its "
        "`resume_after`, or the same in hex."
    )
