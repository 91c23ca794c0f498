from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace

import pytest
import yaml  # type: ignore[import-untyped]

from airflow_provider_sfevents.commands.output import command, invocation, show_rows
from airflow_provider_sfevents.exceptions import ConfigurationError

ARGS = {"consumer": "load", "topic": "/event/Order__e"}


def test_a_command_is_named_with_the_options_given() -> None:
    """A command to copy has the given options, quoted for a shell, and no defaults."""
    plain = Namespace(**ARGS, position_store="variable", staging=None, conn_id=None)
    assert invocation(plain, "position", "set", "latest") == (
        "airflow sfevents position set load /event/Order__e latest"
    )
    given = Namespace(**ARGS, position_store="asset", staging="s3://b/my area", conn_id="acme")
    assert invocation(given, "batches", "list") == (
        "airflow sfevents batches list load /event/Order__e --position-store asset "
        "--staging 's3://b/my area' --conn-id acme"
    )


def test_our_errors_end_a_command_with_their_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of this package end a command with their message; others pass unchanged."""
    monkeypatch.setenv("_AIRFLOW_PROCESS_CONTEXT", "set before")

    def act(args: Namespace) -> None:
        raise args.error

    with pytest.raises(SystemExit, match="this is wrong"):
        command(act)(Namespace(error=ConfigurationError("this is wrong")))
    with pytest.raises(ZeroDivisionError):
        command(act)(Namespace(error=ZeroDivisionError()))
    assert os.environ["_AIRFLOW_PROCESS_CONTEXT"] == "set before"


@pytest.mark.parametrize("lines", [1, 100_000])
def test_a_closed_pipe_ends_a_command_without_a_trace(lines: int) -> None:
    """A reader such as `head` may stop before the output, or in the middle of it."""
    say_much = (
        "from airflow_provider_sfevents.commands.output import command, say\n"
        f"command(lambda args: [say('a line') for _ in range({lines})])(None)"
    )
    closed, write = os.pipe()
    os.close(closed)
    ended = subprocess.run(
        [sys.executable, "-c", say_much], stdout=write, stderr=subprocess.PIPE, check=False
    )
    os.close(write)
    assert (ended.returncode, ended.stderr) == (1, b"")


def test_programs_get_types_and_people_words(capsys: pytest.CaptureFixture[str]) -> None:
    """JSON and YAML keep numbers and null; a table has empty cells and words."""
    row = {"events": 1, "none": None, "selected": False, "members": ["a", "b"], "age_hours": 0.5}
    show_rows([row], "json")
    assert json.loads(capsys.readouterr().out) == [row]
    show_rows([row], "yaml")
    assert yaml.safe_load(capsys.readouterr().out) == [row]
    show_rows([row], "plain")
    assert capsys.readouterr().out.splitlines()[1].split() == ["1", "no", "a,", "b", "0.5"]


def test_brackets_and_colons_are_shown_as_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    """A table shows the name of a setting's section, and a message that Rich would not parse."""
    said = "Set [sfevents] staging_mode :key: [/event/Order__e]"
    show_rows([{"said": said}], "table")
    assert said in capsys.readouterr().out
