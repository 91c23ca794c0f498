from __future__ import annotations

import inspect
import subprocess
import sys
from importlib import import_module

import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand

from airflow_provider_sfevents.commands.command_arguments import get_commands


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
    """The commands have the names by which errors and documentation refer to them."""
    assert sorted(actions()) == [
        "batches list",
        "batches reland",
        "batches release",
        "doctor",
        "limits",
        "position acknowledge",
        "position forget",
        "position set",
        "position show",
        "tail",
        "topics describe",
        "topics list",
    ]


@pytest.mark.parametrize("words", actions())
def test_every_command_is_there_when_it_is_given(words: str) -> None:
    """The lazily loaded name of each command leads to a function."""
    path = inspect.getclosurevars(actions()[words].func).nonlocals["import_path"]
    module, _, name = path.rpartition(".")
    room = {"tail": "topics"}.get(words, words.partition(" ")[0])
    assert module.endswith(f".{room}")
    assert callable(getattr(import_module(module), name))


def test_naming_the_commands_loads_nothing() -> None:
    """Listing the commands, at each start of Airflow's command line, loads nothing else."""
    code = (
        "import sys, airflow.cli.cli_config; before = set(sys.modules);"
        "from airflow_provider_sfevents.commands.command_arguments import get_commands; "
        "get_commands();"
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert loaded == [
        "airflow_provider_sfevents.commands",
        "airflow_provider_sfevents.commands.command_arguments",
    ]
