"""A long text is sent as a diff if that is shorter, and the diff leads to the new value."""

from __future__ import annotations

import hashlib

import pytest

from airflow_provider_sfevents.emulator.org.records.text_diffs import diff


def _text(count: int, changed: dict[int, str] | None = None, end: str = "\n") -> str:
    lines = [f"Line {number} of the customer's story." for number in range(count)]
    for at, line in (changed or {}).items():
        lines[at] = line
    return end.join(lines)


def _patched(base: str, patch: str, end: str) -> str:
    """Apply a diff, written from the format alone."""
    lines, out, at = base.split(end), [], 0
    for line in patch.split("\n")[2:]:
        if line.startswith("@@"):
            old = line.split()[1].removeprefix("-").split(",")
            first = int(old[0]) - (1 if int(old[1]) else 0)
            out += lines[at:first]
            at = first
        elif line.startswith("+"):
            out.append(line[1:])
        else:
            out += [line[1:]] if line.startswith(" ") else []
            at += 1
    return end.join(out + lines[at:])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "changed",
    [{0: "A new beginning."}, {39: "A new end."}, {3: "One.", 30: "Two."}, {7: ""}],
    ids=["first line", "last line", "two places", "an empty line"],
)
def test_a_diff_leads_to_the_new_value(changed: dict[int, str], end: str) -> None:
    """The diff applied to the old value gives the new one, whose SHA-256 it states."""
    old, new = _text(40, end=end), _text(40, changed, end=end)
    patch = diff(old, new)
    assert patch
    assert patch.split("\n")[:2] == ["--- ", f"+++ {hashlib.sha256(new.encode()).hexdigest()}"]
    assert _patched(old, patch, end) == new


def test_lines_added_and_removed_are_counted_in_the_hunks() -> None:
    """A hunk's header counts the lines of both sides, also of an empty side."""
    old = _text(40)
    patch = diff(old, f"A line before.\n{old}")
    assert patch
    assert patch.split("\n")[2:4] == ["@@ -1,3 +1,4 @@", "+A line before."]
    removed = diff(old, old.rpartition("\n")[0])
    assert removed
    assert removed.split("\n")[2] == "@@ -37,4 +37,3 @@"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (_text(20), _text(20, {1: "x"})),
        (_text(60), _text(29)),
        (_text(40), _text(40, dict.fromkeys(range(0, 40, 3), "x"))),
        ("a" * 2000, "a" * 1999 + "b"),
        (_text(40), _text(40, {1: "x"}).replace("\n", "\r\n", 1)),
        (_text(40), _text(40, end="\r\n")),
    ],
    ids=["short", "half as long", "many lines", "one line", "two line breaks", "other line breaks"],
)
def test_other_values_are_sent_whole(old: str, new: str) -> None:
    """Short, shrunk, mostly changed, incompressible or mixed values are sent whole."""
    assert diff(old, new) is None


def test_the_hash_may_be_over_line_feeds() -> None:
    """With the knob, the hash is taken over line feeds, as in an older page."""
    old, new = _text(40, end="\r\n"), _text(40, {5: "x"}, end="\r\n")
    patch = diff(old, new, hashed="lf")
    assert patch
    digest = hashlib.sha256(new.replace("\r\n", "\n").encode()).hexdigest()
    assert patch.split("\n")[1] == f"+++ {digest}"
