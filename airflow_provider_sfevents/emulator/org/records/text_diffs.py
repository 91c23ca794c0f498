"""Unified diffs of long texts in change events.

Source: Change Data Capture Developer Guide, "Change Event Fields", on diffFields. The new value is
sent whole if it or the old one is shorter than 1,000 characters, if the length changed by more than
half, if more than a quarter of the lines changed, or if the diff is not shorter than the value.
"""

from __future__ import annotations

import hashlib
import re
from difflib import SequenceMatcher
from typing import Literal

KINDS = ("StringPlusClob", "HtmlStringPlusClob")
SHORTEST = 1_000
_CONTEXT_LINES = 3
_BREAK = re.compile(r"\r\n|\n")

Hashed = Literal["own", "lf"]


def diff(old: str, new: str, *, hashed: Hashed = "own") -> str | None:
    """Unified diff from `old` to `new`; None if the new value is sent whole.

    :param hashed: line breaks for the new value's SHA-256: its own, or line feeds.
    """
    if min(len(old), len(new)) < SHORTEST or abs(len(new) - len(old)) * 2 > len(old):
        return None
    breaks = set(_BREAK.findall(new))
    before, after = _BREAK.split(old), _BREAK.split(new)
    # A patch joins lines with one kind of line break, so a value with both cannot be restored.
    if len(breaks) > 1 or before == after:
        return None
    groups = list(
        SequenceMatcher(None, before, after, autojunk=False).get_grouped_opcodes(_CONTEXT_LINES)
    )
    if _changed_lines(groups) * 4 > max(len(before), len(after)):
        return None
    digest = hashlib.sha256((new if hashed == "own" else "\n".join(after)).encode()).hexdigest()
    lines = ["--- ", f"+++ {digest}"]
    for group in groups:
        lines += _hunk(group, before, after)
    text = "\n".join(lines)
    return text if len(text) < len(new) else None


def _changed_lines(groups: list[list[tuple[str, int, int, int, int]]]) -> int:
    return sum(
        max(old_end - old, new_end - new)
        for group in groups
        for tag, old, old_end, new, new_end in group
        if tag != "equal"
    )


def _hunk(
    group: list[tuple[str, int, int, int, int]], before: list[str], after: list[str]
) -> list[str]:
    (_, old, _, new, _), (_, _, old_end, _, new_end) = group[0], group[-1]
    lines = [f"@@ -{_span(old, old_end)} +{_span(new, new_end)} @@"]
    for tag, first, last, other, other_last in group:
        if tag == "equal":
            lines += [f" {line}" for line in before[first:last]]
            continue
        lines += [f"-{line}" for line in before[first:last]]
        lines += [f"+{line}" for line in after[other:other_last]]
    return lines


def _span(first: int, last: int) -> str:
    """First line and count of a hunk; an empty span names the line before it."""
    return f"{first + 1 if last > first else first},{last - first}"
