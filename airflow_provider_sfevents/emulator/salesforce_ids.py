"""Salesforce ids: records and orgs in 15 and 18 characters, replay ids, rpc ids."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

_SUFFIX = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SHORT, _LONG = 15, 18
_POSITION_BYTES = 8


def long_id(short: str) -> str:
    """Long form of a 15-character id; its suffix states which letters are capitals."""
    if len(short) != _SHORT:
        raise ValueError(
            f"{short!r} has {len(short)} characters; a Salesforce id has 15 before its suffix"
        )
    chunks = (short[at : at + 5] for at in range(0, _SHORT, 5))
    return short + "".join(
        _SUFFIX[sum(1 << k for k, c in enumerate(chunk) if "A" <= c <= "Z")] for chunk in chunks
    )


def is_id(text: str) -> bool:
    """True if a text is an id of 15 characters, or of 18 with the correct suffix."""
    if not text.isalnum() or not text.isascii():
        return False
    return len(text) == _SHORT or (len(text) == _LONG and long_id(text[:_SHORT]) == text)


def record_id(prefix: str, number: int) -> str:
    """18-character id of the record with this number; the prefix is the entity (`001`: Account)."""
    digits = ""
    while number:
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return long_id(prefix + digits.rjust(_SHORT - len(prefix), "0"))


def random_id(prefix: str, source: random.Random) -> str:
    """Random 18-character id in the form of live orgs."""
    body = "".join(source.choices(_BASE62, k=6))
    return long_id(f"{prefix}gL00000{body}"[:_SHORT].ljust(_SHORT, "0"))


def replay_id(position: int, length: int = 10) -> bytes:
    """Replay id of a position: int64 big-endian, since 2022 followed by two zero bytes."""
    return position.to_bytes(_POSITION_BYTES, "big").ljust(length, b"\0")


def position_of(replay: bytes) -> int | None:
    """Position of a replay id; None unless it has 8 bytes, or 10 that end in zeros."""
    body, rest = replay[:_POSITION_BYTES], replay[_POSITION_BYTES:]
    if len(body) != _POSITION_BYTES or rest not in {b"", b"\0\0"}:
        return None
    return int.from_bytes(body, "big", signed=True)


def rpc_id(style: str = "uuid") -> str:
    """Random id of an RPC; live services use dashes, or 32 hex digits."""
    made = uuid.uuid4()
    return made.hex if style == "hex32" else str(made)
