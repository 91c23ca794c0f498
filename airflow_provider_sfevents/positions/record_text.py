"""Text forms of a position: its JSON record, its replay id, and its keys in the stores. Pure."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, fields
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.command_lines import command_line
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.staging.layout import topic_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from dataclasses import Field

PREFIX = "sfevents."
"""Beginning of the keys of positions among Variables, and in the state of assets."""

_CONSUMER = re.compile(r"[\w.-]+")
_EPOCH = re.compile(r"[A-Za-z0-9_-]{1,64}")

_SHOWN = 4
_LARGEST = 10**13  # in milliseconds three centuries
_FIRST_YEAR, _LAST_YEAR = 1900, 9000
_KEY_LENGTH = 250  # Airflow's column of Variable keys


def is_epoch(value: str) -> bool:
    """Return whether the text can be an epoch, which becomes the name of a folder."""
    return _EPOCH.fullmatch(value) is not None


def check_consumer(consumer: Any) -> str:
    """Return the consumer, if every store accepts it: the characters of a DAG's id.

    It is part of a Variable's key and names a folder of the staging area. In a key, a slash would
    be split in the Execution API's path and in secrets backends with folders; a blank or `=` cannot
    be in the name of an environment variable; other characters are refused by some backends.

    :raises ConfigurationError: it has other characters, or none; or it is what a template without
        a value becomes.
    """
    if consumer == "None" or not isinstance(consumer, str) or not _CONSUMER.fullmatch(consumer):
        raise ConfigurationError(
            f"consumer={consumer!r} cannot name a position: give letters, digits, dots, dashes and "
            "underscores, as in a DAG's id. (A template without a value becomes 'None'.)"
        )
    return consumer


def variable_key(consumer: str, topic: str) -> str:
    """Return the key of the Airflow Variable, and of users' own stores.

    :raises ConfigurationError: longer than Airflow's database accepts.
    """
    key = f"{PREFIX}{consumer}.{topic_name(topic)}"
    if len(key) > _KEY_LENGTH:
        raise ConfigurationError(
            f"The position of consumer {consumer!r} on {topic} would be Variable {key!r}, "
            f"{len(key)} characters long; Airflow takes {_KEY_LENGTH}. Name a shorter `consumer`."
        )
    return key


def asset_key(consumer: str) -> str:
    """Return the key in the state store of a topic's asset."""
    return f"{PREFIX}{consumer}"


def xcom_key(topic: str) -> str:
    return f"sfevents.position.{topic_name(topic)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Whose:
    """Consumer, topic and store of a position, as far as known, for `position` commands.

    :param store: `position_store`, if it is not the default.
    """

    consumer: str = "<consumer>"
    topic: str = "<topic>"
    store: str = ""

    @property
    def is_known(self) -> bool:
        return self != Whose()

    @classmethod
    def of(cls, store: object, consumer: str, topic: str) -> Whose:
        """Return those of a store; it may be a user's own one, which does not know them."""
        known = getattr(store, "whose", cls())
        return known if known.is_known else cls(consumer=consumer, topic=topic)

    def command(self, verb: str, *words: str) -> str:
        """Build a command line of `airflow sfevents position`."""
        option = ("--position-store", self.store) if self.store else ()
        line = command_line("position", verb, self.consumer, self.topic, *words, *option)
        return f"`{line}`"


def in_lines(record: dict[str, Any]) -> str:
    """Write a record as JSON with one line for each field: readable, and small."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(value, separators=(',', ':'))}"
        for name, value in record.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}"


def check_fields(
    record: str, version: int, types: dict[str, type], where: str, whose: Whose
) -> None:
    """Check that a record has all of these fields and no others, each of its type.

    :raises ConfigurationError: it has another content or another version.
    """
    try:
        value = json.loads(record)
        if "\\u" in record:  # half of a pair can be written as an escape of JSON, and nowhere else
            json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise unusable(where, whose, "it holds half of a pair of surrogates, no text") from error
    except (ValueError, RecursionError) as error:
        raise unusable(where, whose, f"{_shown(record)} is not JSON ({error})") from error
    if not isinstance(value, dict):
        raise unusable(where, whose, f"{_shown(record)} is not a JSON object")
    found = value.pop("version", None)
    if isinstance(found, int) and found > version:
        raise ConfigurationError(
            f"{where} is a position of version {found}, written by a newer release; this one reads "
            f"version {version}. Upgrade airflow-provider-sfevents here too, or let only the newer "
            "one work with it."
        )
    if found != version:
        raise unusable(where, whose, f"`version` is {found!r} instead of {version}")
    if wrong := _differences(value, types):
        raise unusable(where, whose, wrong)


def unusable(where: str, whose: Whose, why: str) -> ConfigurationError:
    """Build the error for a record that is no position."""
    return ConfigurationError(
        f"{where} does not hold a position: {why}. Nothing was fetched, and the position was not "
        "moved. Correct it by hand; or write it again, at the end of the last batch that landed: "
        f"{whose.command('set', '<replay id>')} (the staging area's newest manifest with a receipt "
        f"has it as `end`); or begin anew at `initial_replay`: {whose.command('forget')}."
    )


def is_time(value: Any) -> bool:
    """Return whether it is an ISO 8601 time with a zone; without one, times cannot be compared.

    The years are those that times near them can be computed in.
    """
    try:
        at = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return False
    return at.tzinfo is not None and _FIRST_YEAR <= at.year <= _LAST_YEAR


def is_number(value: Any) -> bool:
    """Return whether it is a number that a record may hold; times can be computed with it."""
    return type(value) is int and abs(value) <= _LARGEST


def _shown(record: str) -> str:
    """Show the beginning of a text that is no record: it may be a secret with such a name."""
    return repr(record if len(record) <= _SHOWN else f"{record[:_SHOWN]}...")


def _differences(value: dict[str, Any], types: dict[str, type]) -> str:
    if missing := [name for name in types if name not in value]:
        return f"it lacks {', '.join(missing)}"
    if unknown := [name for name in value if name not in types]:
        return f"it has unknown fields {', '.join(unknown)}"
    # `type`, because a bool is no number here.
    wrong = [name for name, kind in types.items() if type(value[name]) is not kind]
    return ", ".join(f"`{name}` is {value[name]!r}" for name in wrong)


def wrong_time(times: Mapping[str, str]) -> str:
    """Return which of the times, by name, is none."""
    return ", ".join(
        f"`{name}` is {value!r}; it must be a time with its zone in ISO 8601"
        for name, value in times.items()
        if not is_time(value)
    )


def wrong_part(parts: Iterable[tuple[str, Any]]) -> str:
    """Return which field of the parts, by name, has another type than its class says."""
    return ", ".join(
        f"`{name}.{one.name}` is {getattr(part, one.name)!r}"
        for name, part in parts
        for one in _fields(part.__class__)
        if type(given := getattr(part, one.name)).__name__ != one.type
        or (one.type == "int" and not is_number(given))
    )


@cache
def _fields(kind: type) -> tuple[Field[Any], ...]:
    """Return the fields of a class, found once: a page reads ten thousand parts."""
    return fields(kind)
