"""Types of the arguments of operators, sensors and triggers, checked when the DAG is parsed.

The annotations of `__init__` are the declaration. Lists, mappings and `Any` have checks of their
own.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.run_context import is_template

_TEXTS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "datetime": ((datetime,), "a time"),
    "bool": ((bool,), "True or False"),
    "None": ((type(None),), ""),
}
_NUMBERS: dict[str, tuple[tuple[type, ...], str]] = {
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
}

_ATTRIBUTES = {"spark_conn_id": "_conn_id"}
"""Attribute of an argument that has another name there."""


def check_types(given: Any, of: type, *, numbers: bool = True) -> None:
    """Check the types of the arguments of an operator, a sensor or a trigger.

    :param given: has the arguments as attributes of their names, with or without an underscore.
    :param of: the class, or the base class, that declares the arguments in its `__init__`.
    :param numbers: check numbers, too.
    :raises ConfigurationError: the message names the argument, its value and its valid types.
    """
    known = {**_TEXTS, **_NUMBERS} if numbers else _TEXTS
    templated = getattr(given, "template_fields", ())
    for name, annotation in of.__init__.__annotations__.items():  # type: ignore[misc]
        kinds = str(annotation).split(" | ")
        attribute = _ATTRIBUTES.get(name, name)
        kept = [one for one in (attribute, f"_{attribute}") if hasattr(given, one)]
        if not kept or not known.keys() >= set(kinds):
            continue
        value = getattr(given, kept[0])
        is_later = name in templated and is_template(value)
        if not is_later and not any(_is_a(value, known[kind][0]) for kind in kinds):
            words = [known[kind][1] for kind in kinds if kind != "None"]
            words += ["another task's result"] if name in templated else []
            words += ["leave it out"] if "None" in kinds else []
            raise ConfigurationError(f"{name} is {value!r}. Give {', or '.join(words)}.")


def _is_a(value: Any, types: tuple[type, ...]) -> bool:
    """Return whether a value has one of the types; a truth value is no number."""
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))
