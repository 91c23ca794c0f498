"""Options of the Spark jobs: declared once, as fields of frozen dataclasses. No I/O, no Spark.

1. A field is the option: its name, its type, its default and, as `option(...)`, its help text.
2. The job's command line is made from the fields, and so are the arguments that a task passes to
   the job. An option that has its default is left out.
3. A class has a `check`. It is called when a DAG is parsed, and again by the job.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import MISSING, Field, dataclass, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


class Options(Protocol):
    """A frozen dataclass of which each field is an `option`."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def check(self) -> None:
        """Check the values.

        :raises ConfigurationError: the message names the option, its value and its valid values.
        """


AnyOptions = TypeVar("AnyOptions", bound=Options)

_KEY = "option"


@dataclass(frozen=True, slots=True, kw_only=True)
class OptionText:
    """Form of an option on a command line.

    :param flag: empty for the field's name.
    :param read: makes a value from text.
    :param write: makes text from a value.
    """

    help_text: str
    metavar: str
    flag: str
    read: Callable[[str], Any]
    write: Callable[[Any], str]


def option(
    help_text: str,
    metavar: str = "",
    *,
    flag: str = "",
    read: Callable[[str], Any] = str,
    write: Callable[[Any], str] = str,
) -> dict[str, OptionText]:
    """Metadata of a field that is an option; parameters as of `OptionText`."""
    text = OptionText(help_text=help_text, metavar=metavar, flag=flag, read=read, write=write)
    return {_KEY: text}


def json_option(help_text: str, *, read: Callable[[Any], Any] = lambda value: value) -> Any:
    """Metadata of a field whose text is JSON.

    :param read: makes a value from what JSON has.
    """
    return option(
        help_text,
        "JSON",
        read=lambda text: read(json.loads(text)),
        write=partial(json.dumps, default=dict),
    )


def command_line(description: str, *kinds: type[Options]) -> argparse.ArgumentParser:
    """Parser of a job's arguments.

    :param kinds: an option that two of them have is one argument, which gives both their value.
    """
    parser = argparse.ArgumentParser(description=description)
    found: dict[str, Field[Any]] = {}
    for one in (one for kind in kinds for one in fields(kind)):
        if one.name not in found or _is_required(one):
            found[one.name] = one
    for one in found.values():
        _add(parser, one)
    return parser


def options_from(kind: type[AnyOptions], given: Mapping[str, Any]) -> AnyOptions:
    """Make options from values by name, and check them; other names are left alone.

    :raises ConfigurationError: a value cannot work.
    """
    made = kind(**{one.name: given[one.name] for one in fields(kind) if one.name in given})
    made.check()
    return made


def arguments_of(*options: Options) -> list[str]:
    """Arguments for the job, without those that have their default."""
    said: dict[str, list[str]] = {}
    for each in options:
        not_default = changed(each)
        for one in fields(each):
            if one.name not in said and (_is_required(one) or one.name in not_default):
                said[one.name] = _arguments(one, getattr(each, one.name))
    return [argument for arguments in said.values() for argument in arguments]


def changed(options: Options) -> set[str]:
    """Names of the options that have a default, and another value."""
    return {
        one.name
        for one in fields(options)
        if not _is_required(one) and getattr(options, one.name) != _default(one)
    }


def flag_of(one: Field[Any]) -> str:
    """Flag of an option."""
    text: OptionText = one.metadata[_KEY]
    return text.flag or f"--{one.name.replace('_', '-')}"


def require_known(name: str, value: str, known: Sequence[str]) -> None:
    """Check an option with a few known values.

    :raises ConfigurationError: the value is none of them.
    """
    if value not in known:
        raise ConfigurationError(f"{name}={value!r} is not known; give {' or '.join(known)}.")


def _arguments(one: Field[Any], value: Any) -> list[str]:
    flag, text = flag_of(one), one.metadata[_KEY]
    if isinstance(value, bool):
        return [flag if value else f"--no-{flag.removeprefix('--')}"]
    return [flag, text.write(value)]


def _add(parser: argparse.ArgumentParser, one: Field[Any]) -> None:
    text: OptionText = one.metadata[_KEY]
    default = None if _is_required(one) else _default(one)
    # A percent sign is a placeholder for argparse.
    described = text.help_text.replace("%", "%%")
    if isinstance(default, str | int) and default != "":
        usual = {True: "on", False: "off"}[default] if isinstance(default, bool) else default
        described += f" (default: {usual})"

    def read(given: str) -> Any:
        try:
            return text.read(given)
        except ValueError as error:
            raise ConfigurationError(f"{flag_of(one)} {given!r} cannot be read: {error}") from error

    how: dict[str, Any] = {"action": argparse.BooleanOptionalAction}
    if not isinstance(default, bool):
        how = {"metavar": text.metavar, "required": _is_required(one), "type": read}
    parser.add_argument(
        flag_of(one), dest=one.name, default=argparse.SUPPRESS, help=described, **how
    )


def _is_required(one: Field[Any]) -> bool:
    return one.default is MISSING and one.default_factory is MISSING


def _default(one: Field[Any]) -> Any:
    return one.default if one.default_factory is MISSING else one.default_factory()
