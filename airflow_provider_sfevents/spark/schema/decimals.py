"""Decimal columns by configuration: `{"Amount__c": "decimal(18,2)", "*": "decimal(38,6)"}`.

Salesforce sends every number with a fraction as a double, so its column is a double. A decimal is a
choice: sums of money are exact, and a value with more digits than the decimal goes to quarantine.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.schema.field_types import FieldType

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.schema.field_types import Fields

EVERY_DOUBLE = "*"
_HEADER = "changeeventheader"
_NUMBERS = frozenset({"int", "long", "double"})
_MOST_DIGITS = 38  # of a decimal in Spark, and in Parquet, Delta and Iceberg alike
_FIELD = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_TYPE = re.compile(r"\s*decimal\s*\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)\s*", re.ASCII | re.IGNORECASE)


def read_decimals(decimals: Mapping[str, str]) -> dict[str, FieldType]:
    """Read the option `decimals`; called when a DAG is parsed, before events are delivered.

    :param decimals: types by field: its name as in the event's schema (upper and lower case count
        as one), `Parent.Member` for a member of a compound, or `*` for every double of the event
        that is not named and is no member of a compound (these are coordinates).
    :returns: types by field in folded case.
    :raises ConfigurationError: an invalid name or type; the message names valid ones.
    """
    if not isinstance(decimals, Mapping):
        raise ConfigurationError(
            f"decimals={decimals!r} is no dict of fields and their types; give such as "
            "{'Amount__c': 'decimal(18,2)'}."
        )
    found: dict[str, FieldType] = {}
    for name, text in decimals.items():
        key = _checked_name(name)
        if key in found:
            raise ConfigurationError(
                f"decimals names the field {name} twice; Salesforce's names have no case. Give it "
                "once."
            )
        found[key] = _decimal(name, text)
    return found


def with_decimals(fields: Fields, decimals: Mapping[str, FieldType]) -> Fields:
    """Replace the types of configured numbers; a field that is no number keeps its type.

    :param decimals: as `read_decimals` returns them.
    """
    if not decimals:
        return fields
    return tuple(
        (name, _applied(name.casefold(), kind, decimals, decimals.get(EVERY_DOUBLE)))
        for name, kind in fields
    )


def _applied(
    path: str, kind: FieldType, decimals: Mapping[str, FieldType], every_double: FieldType | None
) -> FieldType:
    if kind.kind in _NUMBERS and path in decimals:
        return decimals[path]
    if kind.kind == "double" and every_double is not None:
        return every_double
    if kind.kind == "struct" and path != _HEADER:
        members = tuple(
            (name, _applied(f"{path}.{name.casefold()}", member, decimals, None))
            for name, member in kind.members
        )
        return replace(kind, members=members)
    return kind


def _checked_name(name: object) -> str:
    if name == EVERY_DOUBLE:
        return EVERY_DOUBLE
    if not isinstance(name, str) or not _FIELD.fullmatch(name):
        raise ConfigurationError(
            f"decimals names {name!r}, which is no field: give a field's name (Amount__c), "
            "Parent.Member for a member of a compound (Place__c.Latitude), or * for every double "
            "of the event."
        )
    key = name.casefold()
    if key.partition(".")[0] == _HEADER:
        raise ConfigurationError(
            f"decimals names {name}: the numbers of ChangeEventHeader are whole. Leave it out."
        )
    return key


def _decimal(name: str, text: object) -> FieldType:
    match = _TYPE.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ConfigurationError(
            f"decimals gives {name} the type {text!r}; it has to be decimal(precision,scale), for "
            "example decimal(18,2)."
        )
    precision, scale = int(match[1]), int(match[2])
    if not 1 <= precision <= _MOST_DIGITS or scale > precision:
        raise ConfigurationError(
            f"decimals gives {name} the type {text!r}: precision has to be 1 to {_MOST_DIGITS}, "
            "and scale 0 to precision."
        )
    return FieldType(kind="decimal", precision=precision, scale=scale)
