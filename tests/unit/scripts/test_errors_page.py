"""The page of errors, which a script makes."""

from __future__ import annotations

from airflow_provider_sfevents.pubsub.error_codes import CODES
from scripts.errors_page import PAGE, page


def test_the_page_is_what_the_tables_say() -> None:
    """docs/reference/errors.md is up to date: run `make docs-pages` after a change."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_code_has_its_row_once() -> None:
    """Each error code stands in exactly one section of the page."""
    written = page().splitlines()
    assert {
        one.suffix: sum(f"| `{one.suffix}` |" in line for line in written) for one in CODES
    } == {one.suffix: 1 for one in CODES}
