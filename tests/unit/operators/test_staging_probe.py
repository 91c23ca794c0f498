from __future__ import annotations

import json

import pytest

from airflow_provider_sfevents.operators.staging_probe import is_wanted, reason_of, refusal
from airflow_provider_sfevents.spark.probe import reason_in
from airflow_provider_sfevents.staging.storage import file_modes


@pytest.mark.parametrize(
    ("master", "deploy_mode", "local", "wanted"),
    [
        pytest.param("local[2]", None, True, False, id="the same user"),
        pytest.param("local", "client", True, False, id="the same user, too"),
        pytest.param("spark://m:7077", None, False, False, id="an object store"),
        pytest.param("spark://m:7077", None, True, True, id="a standalone cluster"),
        pytest.param("spark://m:7077", "cluster", True, False, id="no Python driver there"),
        pytest.param("yarn", "cluster", True, True, id="yarn"),
        pytest.param("k8s://https://k:443", "client", True, True, id="kubernetes"),
    ],
)
def test_spark_is_asked_only_where_it_may_be_another_user(
    master: str, deploy_mode: str | None, local: bool, wanted: bool
) -> None:
    """The probe runs only if files have modes and Spark may run as another user."""
    assert is_wanted(master, deploy_mode, local=local) is wanted


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (None, "it wrote no answer"),
        ({"user": "spark", "error": ""}, ""),
        ({"user": "spark", "error": "Permission denied"}, "user 'spark': Permission denied"),
    ],
)
def test_answers(answer: dict[str, str] | None, reason: str) -> None:
    """Only a probe's answer without an error lets the fetch begin."""
    assert reason_of(None if answer is None else json.dumps(answer).encode()) == reason


def test_a_refusal_names_user_path_and_option() -> None:
    """The error of an unreadable file names user, path and setting."""
    said = refusal("user 'spark': Permission denied", "/data/_probes/1.txt", "yarn")
    for part in ("yarn", "/data/_probes/1.txt", "'spark'", f"{file_modes.OPTION} = private"):
        assert part in said
    assert "[sfevents] staging_group" in said


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a\nCaused by: java.io.FileNotFoundException: /a/b (Permission denied)", "Permission"),
        ("a\nCaused by: java.io.FileNotFoundException: File file:/a does not exist", "it sees no"),
        ("[PATH_NOT_FOUND] Path does not exist: file:/a.", "it sees no such file"),
        ("something else\nat org.apache", "something else"),
    ],
)
def test_reasons(text: str, reason: str) -> None:
    """Spark's stack trace becomes a reason in a few words."""
    assert reason_in(text).startswith(reason)
    assert "\n" not in reason_in(text)
