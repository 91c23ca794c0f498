"""Output of the commands: tables like Airflow's own, questions, errors, and commands to copy."""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING, Any

from airflow.cli.simple_table import AirflowConsole
from airflow.utils.helpers import ask_yesno

from airflow_provider_sfevents.command_lines import command_line
from airflow_provider_sfevents.exceptions import SfEventsError

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence

_CONTEXT = "_AIRFLOW_PROCESS_CONTEXT"


def command(act: Callable[[Namespace], None]) -> Callable[[Namespace], None]:
    """Decorate a command: an error of this package becomes its message on stderr and exit code 1.

    A closed pipe is exit code 1 without a message: a command that asks first has changed nothing.
    It also lets connections be found: Airflow's `BaseHook.get_connection` reads the database only
    in a task and in processes that declare themselves servers (3.3), and a command is neither.
    """

    @functools.wraps(act)
    def run(args: Namespace) -> None:
        os.environ.setdefault(_CONTEXT, "server")
        try:
            act(args)
            sys.stdout.flush()
        except SfEventsError as error:
            raise SystemExit(str(error)) from error
        except BrokenPipeError:
            drop_output()
            raise SystemExit(1) from None

    return run


def drop_output() -> None:
    """Drop output after `head` has read enough; Python writes the rest to the pipe at its exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    print(text)  # noqa: T201 - a command's answer


def confirm(args: Namespace, *what: str) -> None:
    """Ask, unless `--yes` was given.

    :raises SystemExit: the answer is no, or there is no input.
    """
    say("\n".join(what))
    try:
        if args.yes or ask_yesno("Continue? [y/n]"):
            return
    except EOFError:
        raise SystemExit(
            "Nothing was changed, because there was no answer. To skip the question: --yes"
        ) from None
    raise SystemExit("Nothing was changed.")


def is_for_programs(output: str) -> bool:
    """Return whether the output is for a program, which needs JSON's types."""
    return output not in ("table", "plain")


def show_rows(rows: Sequence[Mapping[str, Any]], output: str) -> None:
    """Show rows of the same columns: words for people, JSON's types for programs.

    :param rows: values in the types that JSON has.
    """
    # In Rich's markup `[sfevents]` would be a style, and `[/event/Order__e]` an error.
    console = AirflowConsole(markup=False, emoji=False)
    if output == "json":
        console.print_as_json(rows)
    elif output == "yaml":
        console.print_as_yaml(rows)
    else:
        words = [{name: _in_words(value) for name, value in row.items()} for row in rows]
        console.print_as(data=words, output=output)


def show_one(fields: Mapping[str, Any], output: str) -> None:
    """Show one object with many fields: one per line for people, one object for programs."""
    if is_for_programs(output):
        show_rows([fields], output)
        return
    show_rows(
        [{"name": name, "value": _in_words(one, "\n")} for name, one in fields.items()], output
    )


def _in_words(value: Any, between: str = ", ") -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return between.join(map(str, value)) if isinstance(value, list) else str(value)


def invocation(args: Namespace, group: str, name: str, *words: str) -> str:
    """Return another command on the same consumer and topic, to copy, with the same options."""
    given = {
        "--position-store": None if args.position_store == "variable" else args.position_store,
        "--staging": args.staging,
        "--conn-id": args.conn_id,
    }
    options = [word for option, value in given.items() if value for word in (option, value)]
    return command_line(group, name, args.consumer, args.topic, *words, *options)
