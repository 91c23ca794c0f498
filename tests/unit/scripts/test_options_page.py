"""The page of the Spark jobs' options is made, not written."""

from __future__ import annotations

from scripts.options_page import PAGE, page


def test_the_page_has_the_options_of_the_jobs() -> None:
    """The page is up to date: after a change of an option, `make docs-pages` writes it again."""
    assert PAGE.read_text(encoding="utf-8") == page().rstrip() + "\n"
