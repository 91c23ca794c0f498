"""Long texts that come as unified diffs."""

from __future__ import annotations

import difflib
import hashlib

import pytest
from hypothesis import given, settings, strategies as st

from airflow_provider_sfevents.spark.changes.diffs import UnpatchableError, patched

BASE = "one\ntwo\nthree\nfour\nfive\nsix"


def diff(old: str, new: str, *, header: str = "", context: int = 1) -> str:
    """Make a diff in the guide's form, with any line end."""
    before, after = (text.replace("\r\n", "\n").split("\n") for text in (old, new))
    hunks = list(difflib.unified_diff(before, after, lineterm="", n=context))[2:]
    told = header or hashlib.sha256(new.encode()).hexdigest()
    return "\n".join(["--- ", f"+++ {told}", *hunks])


@pytest.mark.parametrize(
    "new",
    [
        BASE.replace("three", "3"),
        "zero\n" + BASE,
        BASE + "\nseven",
        BASE + "\n",
        "two\nfive",
        BASE.replace("two\n", "").replace("five", "5\n5b"),
        "",
        BASE.replace("\n", "\r\n").replace("four", "4"),
        BASE.replace("\n", "\r\n"),
        BASE.replace("two", "two\u2028\f\x85"),
    ],
)
def test_a_diff_leads_from_base_to_new(new: str) -> None:
    """The new value is exactly the one that was hashed, line ends included."""
    assert patched(BASE, diff(BASE, new)) == new


@pytest.mark.parametrize(
    "new",
    [
        BASE.replace("three", "three\n3a\n3b"),
        "zero\n" + BASE,
        BASE.replace("two\n", ""),
        BASE.replace("two", "2").replace("five", "five\n5a"),
    ],
    ids=["inserted", "inserted before all", "removed", "replaced and inserted"],
)
def test_a_diff_without_context_leads_there_too(new: str) -> None:
    """Lines inserted without context come after the line that the hunk names."""
    assert patched(BASE, diff(BASE, new, context=0)) == new


def test_the_bases_own_line_ends_are_kept() -> None:
    """A text with CRLF stays one, though the diff's lines end with LF."""
    old, new = (text.replace("\n", "\r\n") for text in (BASE, BASE.replace("two", "2")))
    assert patched(old, diff(old, new)) == new


def test_a_base_that_is_the_new_value_stays() -> None:
    """An event applied onto a record that was read after it changes nothing."""
    new = BASE.replace("two", "2")
    assert patched(new, diff(BASE, new)) == new


@pytest.mark.parametrize(
    ("base", "text", "why"),
    [
        (None, diff(BASE, "x"), "no value"),
        (BASE, "plain text", "is not a diff"),
        (BASE, "--- \n+++ \n@@ -1 +1 @@\n-one\n+1", "without the hash"),
        (BASE, diff(BASE, "x", header="0" * 64), "does not lead"),
        ("another\n" + BASE, diff(BASE, BASE.replace("two", "2")), "does not lead"),
        ("", diff(BASE, BASE.replace("two", "2")), "does not lead"),
    ],
    ids=["no base", "no diff", "no hash", "wrong hash", "wrong base", "empty base"],
)
def test_what_cannot_be_proved_is_not_believed(base: str | None, text: str, why: str) -> None:
    """Without a base, a hash or a match a diff gives no value."""
    with pytest.raises(UnpatchableError, match=why):
        patched(base, text)


@settings(max_examples=200)
@given(
    st.lists(st.sampled_from(["a", "b", "", "-c", "+d", " e", "@@ -1 +1 @@", "--- "]), max_size=8),
    st.lists(st.sampled_from(["a", "b", "", "-c", "+d", " e", "x"]), max_size=8),
    st.sampled_from(["\n", "\r\n"]),
    st.integers(0, 3),
)
def test_any_two_texts(old: list[str], new: list[str], line_break: str, context: int) -> None:
    """A diff between any two texts leads from the one to the other."""
    before, after = line_break.join(old), line_break.join(new)
    assert patched(before, diff(before, after, context=context)) == after
