"""Secrets as opaque values."""

from __future__ import annotations

from typing_extensions import override


class Secret:
    """A password, key or token that no `repr`, format or recorded local variable shows.

    Rule: `reveal` is called inside the expression that needs the text, such as the body of a
    request. Its result gets no name, because tools that record the frames of an exception show
    every local variable. True if it holds more than blanks.
    """

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text or ""  # an unset environment variable is None

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text.strip())

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self._text == other._text

    @override
    def __hash__(self) -> int:
        return hash(self._text)

    @override
    def __repr__(self) -> str:
        return "Secret()"


NO_SECRET = Secret()
