from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module

import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand

from airflow_provider_sfevents.commands.grammar import get_commands


def actions() -> dict[str, ActionCommand]:
    [top] = get_commands()
    found: dict[str, ActionCommand] = {}
    for one in top.subcommands:
        if isinstance(one, GroupCommand):
            found |= {f"{one.name} {action.name}": action for action in one.subcommands}
        else:
            found[one.name] = one
    return found


def test_the_commands_are_those_that_messages_name() -> None:
    """Every refusal and page of the documentation names commands by these words."""
    assert sorted(actions()) == [
        "batches list",
        "batches reland",
        "batches release",
        "limits",
        "position forget",
        "position set",
        "position show",
        "topics describe",
        "topics list",
    ]


@pytest.mark.parametrize("words", actions())
def test_every_command_is_there_when_it_is_given(words: str) -> None:
    """What a command does is loaded late, by its name; each name leads to something to call."""
    path = inspect.getclosurevars(actions()[words].func).nonlocals["import_path"]
    module, _, name = path.rpartition(".")
    assert module.endswith(f".{words.partition(' ')[0]}")
    assert callable(getattr(import_module(module), name))


def test_naming_the_commands_loads_nothing() -> None:
    """Airflow does this at every start of its command line: no client, no staging area, no database model comes with it."""
    code = (
        "import sys, airflow.cli.cli_config; before = set(sys.modules);"
        "from airflow_provider_sfevents.commands.grammar import get_commands; get_commands();"
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert loaded == [
        "airflow_provider_sfevents.commands",
        "airflow_provider_sfevents.commands.grammar",
    ]
