"""Lines on the machine that runs tasks, from what its steps found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.doctor.findings import failures
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.operators import worker_checks
from airflow_provider_sfevents.operators.doctor import SfEventsDoctorOperator
from airflow_provider_sfevents.submit.java import find_java

if TYPE_CHECKING:
    from pathlib import Path

NO_STORE = "java.lang.RuntimeException: Class org.apache.hadoop.fs.s3a.S3AFileSystem not found"


def test_steps_do_not_depend_on_each_other(tmp_path: Path) -> None:
    """A step that fails has a line with its remedy, and the steps after it are looked at."""

    def no_java() -> str:
        return find_java({"PATH": ""}, tmp_path, bundled=lambda: None).home

    found = worker_checks.step_findings(("Java", no_java), ("Spark master", lambda: "It answers."))
    assert [one.checked for one in found] == ["Java", "Spark master"]
    [java] = failures(found)
    assert java.seen == "No Java that Spark starts on; found: none."
    assert java.remedy.startswith("Install Java 17 or 21")


@pytest.mark.parametrize(
    ("said", "checked"),
    [
        ("Spark could not fetch a:b:1, which `packages` asks for. Check the coordinates.", "jars"),
        (f"Cannot execute: spark-submit\n{NO_STORE}", "jars"),
        ("Cannot execute: spark-submit. Error code is: 1.\nat org.apache", "Spark"),
    ],
)
def test_a_job_that_fails_for_a_jar_is_a_line_on_jars(said: str, checked: str) -> None:
    """Any other failure is one of Spark, in a line without the stack trace."""
    first = failures(worker_checks.failed_job(said))[0]
    assert first.checked == checked
    assert first.remedy
    assert "\n" not in first.seen


@pytest.mark.parametrize(
    ("reason", "checked"),
    [
        ("", None),
        (NO_STORE, "jars"),
        ("user 'spark': Permission denied", "staging read by Spark"),
    ],
)
def test_an_answer_of_spark_becomes_lines(reason: str, checked: str | None) -> None:
    """Spark that cannot read the staging area fails the last line, or the one on jars."""
    found = failures(worker_checks.read_findings(reason, "file:///staging", "yarn"))
    assert [one.checked for one in found] == ([checked] if checked else [])


def test_arguments_are_checked_when_the_dag_is_parsed() -> None:
    """A topic's name, a text in place of a list, and an application are refused."""
    for arguments, said in (
        ({"topics": ["Order__e"]}, "'Order__e' is no topic"),
        ({"topics": "/event/Order__e"}, "Give a list of topics"),
        ({"application": "mine.py"}, "has no effect here"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            SfEventsDoctorOperator(task_id="doctor", **arguments)
    SfEventsDoctorOperator(task_id="doctor", topics=["/event/Order__e", "{{ params.topic }}"])
