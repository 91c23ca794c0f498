from __future__ import annotations

import pytest

from airflow_provider_sfevents.doctor.findings import (
    at,
    failed,
    failed_by,
    failure_sentence,
    failures,
    message,
    not_checked,
    ok,
    split_message,
    this_process,
    warning,
)
from airflow_provider_sfevents.exceptions import ConfigurationError

GOOD = ok("login", "Logged in.")
OLD = warning("clock", "The clock is off.", "Set it.")
BAD = failed("topic /event/A__e", "It cannot be read.", "Grant it.")
LATER = failed("allowance", "None is left.", "Wait.")
LEFT = not_checked("Spark", "No connection was given.", "Give one.")


@pytest.mark.parametrize(
    ("said", "seen", "remedy"),
    [
        ("It is wrong. Set it to 1. Then run.", "It is wrong.", "Set it to 1. Then run."),
        ("It is wrong at 1.5 s (a.b). `x` helps.", "It is wrong at 1.5 s (a.b).", "`x` helps."),
        ("It is wrong.\nSet\n[a] b = c", "It is wrong.", "Set [a] b = c"),
        ("it is wrong, so set it", "it is wrong, so set it", ""),
    ],
)
def test_the_first_sentence_of_an_error_is_what_was_seen(said: str, seen: str, remedy: str) -> None:
    """The rest is the remedy, and no word is lost."""
    assert split_message(said) == (seen, remedy)
    assert f"{seen} {remedy}".strip() == " ".join(said.split())


def test_an_error_becomes_a_failed_line() -> None:
    """The line has the error's words."""
    line = failed_by("login", ConfigurationError("It is wrong. Set it."))
    assert line == failed("login", "It is wrong.", "Set it.")
    short = failed_by("login", ConfigurationError("it is wrong"), "Read the page.")
    assert short == failed("login", "it is wrong.", "Read the page.")


def test_a_line_is_a_row_of_texts() -> None:
    """A row has the five columns, in the types of JSON."""
    assert BAD.to_row() == {
        "status": "failed",
        "checked": "topic /event/A__e",
        "seen": "It cannot be read.",
        "remedy": "Grant it.",
        "where": "",
    }


def test_failures_are_named_in_order() -> None:
    """The sentence has the names of all failed checks, and the first with its remedy."""
    assert failures([GOOD, OLD, BAD, LEFT, LATER]) == [BAD, LATER]
    assert failure_sentence([GOOD, BAD, LATER]) == (
        "2 checks failed: topic /event/A__e, allowance. First: It cannot be read. Grant it."
    )
    assert failure_sentence([GOOD, OLD, LEFT]) == ""


def test_a_line_keeps_the_place_that_it_names() -> None:
    """Lines without a place get that of the process."""
    there = at("there", [GOOD])
    assert [one.where for one in at("here", [*there, BAD])] == ["there", "here"]


def test_the_message_of_a_failure_begins_with_it() -> None:
    """Failures come before warnings, and what is right is left out."""
    said = message([GOOD, OLD, BAD, LEFT], ["staging", "versions"])
    assert said.startswith("It cannot be read. Grant it. The clock is off. Set it. Not checked: Sp")
    assert "Logged in" not in said
    assert said.endswith("SfEventsDoctorOperator: staging, versions.")


def test_the_message_of_a_good_set_up_says_what_was_seen() -> None:
    """It names the process that looked, and what was not checked."""
    said = message([GOOD, OLD], ["staging"])
    assert said.startswith("Logged in. The clock is off. Set it. Checked by ")
    assert this_process() in said
