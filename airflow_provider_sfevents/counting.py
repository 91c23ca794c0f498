"""Counts with their nouns: `1 event`, `2 events`."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """Return the count with its noun.

    :param plural: for a noun whose plural is not the singular with an `s`.
    """
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
