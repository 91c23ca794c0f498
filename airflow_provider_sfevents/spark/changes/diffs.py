"""Apply a unified diff of a long text, and accept the result only if its hash matches.

Source: Change Data Capture Developer Guide, "Send Data Differences for Fields of Updated Records".
The diff's header has, after `+++`, the SHA-256 of the complete new value. The guide's versions
differ about line ends, and a final line break may or may not count as a line. So each reading is
tried, and the one whose result has that hash is used.
"""

from __future__ import annotations

import hashlib
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_BREAK = re.compile("\r\n|\n")  # not splitlines(): Salesforce counts no form feeds and no U+2028
_HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@")
_HASH = re.compile(r"\+\+\+ ([0-9a-fA-F]{64})\s*")


class UnpatchableError(Exception):
    """The diff does not lead from this base to the value it was made for; the message says why."""


class _Hunk(NamedTuple):
    start: int  # of the base's lines, from 0
    old: tuple[str, ...]
    new: tuple[str, ...]


def patched(base: str | None, diff: str) -> str:
    """Apply a diff to a value, and return the new value.

    :param base: the value so far; None: there is none.
    :raises UnpatchableError: there is no base, the text is no diff, or the result has not the hash
        that the diff names.
    """
    wanted, hunks = _parsed(diff)
    if base is None:
        raise UnpatchableError("it came as a diff, and there is no value to apply it to")
    # An event that is applied onto a record that was read after it.
    if _sha256(base) == wanted:
        return base
    for text in _readings(base, hunks):
        if _sha256(text) == wanted:
            return text
    raise UnpatchableError(
        "its diff does not lead from the value it has to one with the diff's hash"
    )


def _parsed(diff: str) -> tuple[str, list[_Hunk]]:
    lines = _BREAK.split(diff)
    if len(lines) < 2 or not lines[0].startswith("---"):
        raise UnpatchableError("it came as a diff, and its text is not a diff")
    named = _HASH.fullmatch(lines[1])
    if named is None:
        raise UnpatchableError("it came as a diff without the hash of the new value")
    return named[1].lower(), list(_hunks(lines[2:]))


def _hunks(lines: Sequence[str]) -> Iterator[_Hunk]:
    starts = [index for index, line in enumerate(lines) if _HUNK.match(line)]
    for at, following in pairwise([*starts, len(lines)]):
        head = _HUNK.match(lines[at])
        assert head is not None  # noqa: S101 - for the type checker
        body = _body(lines[at + 1 : following], is_last=following == len(lines))
        # After line l where no line of the base is replaced, at line l (from 1) otherwise.
        start = int(head[1]) - (head[2] != "0")
        yield _Hunk(
            max(start, 0),
            tuple(line[1:] for line in body if line[0] in " -"),
            tuple(line[1:] for line in body if line[0] in " +"),
        )


def _body(lines: Sequence[str], *, is_last: bool) -> list[str]:
    """Return the lines with their sign; an empty context line may lack its blank."""
    ended = is_last and bool(lines) and lines[-1] == ""  # what follows the diff's last line break
    return [line or " " for line in (lines[:-1] if ended else lines) if line[:1] in (*" +-", "")]


def _readings(base: str, hunks: Sequence[_Hunk]) -> Iterator[str]:
    """Return each possible reading of line ends, likeliest first."""
    own = "\r\n" if "\r\n" in base else "\n"
    other = "\n" if own == "\r\n" else "\r\n"
    lines = _BREAK.split(base)
    if lines[-1] == "":  # a final line break ends a line and begins none; the new value may lose it
        splits = [(lines, False), (lines[:-1], True), (lines[:-1], False)]
    else:  # the new value may get one
        splits = [(lines, False), (lines, True)]
    for split, has_end in splits:
        found = _applied(split, hunks)
        if found is not None:
            for line_break in (own, other):
                yield line_break.join(found) + (line_break if has_end else "")


def _applied(lines: Sequence[str], hunks: Sequence[_Hunk]) -> list[str] | None:
    made: list[str] = []
    at = 0
    for hunk in hunks:
        end = hunk.start + len(hunk.old)
        if tuple(lines[hunk.start : end]) != hunk.old:
            return None
        made += lines[at : hunk.start]
        made += hunk.new
        at = end
    return [*made, *lines[at:]]


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
