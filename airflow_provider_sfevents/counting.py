"""Counts as a person writes them: `1 event`, `2 events`."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """The count with its noun.

    :param plural: of a noun whose plural is not its singular with an `s`.
    """
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
