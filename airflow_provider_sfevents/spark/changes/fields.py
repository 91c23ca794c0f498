"""Apply an UPDATE to a record's values: set exactly the fields that it names.

1. `Parent` stands for a compound as a whole, `Parent.Member` for that member alone. A compound
   whose members are all null is null.
2. If a field may be text or a compound (such as the name of an account that may be a person),
   setting one clears the other.
3. A field that changed its kind has several columns, one of which holds the value. Setting a member
   in another column moves the other members there; only numbers are cast. Nulling a member changes
   the column that holds the value.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.avro.arrow_columns import fitting_decimal
from airflow_provider_sfevents.spark.changes.diffs import UnpatchableError, patched

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.resync_entries import Reason
    from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType

Values = dict[str, Any]
"""A record's values by column."""

_NUMBERS = frozenset({"int", "long", "double", "decimal"})


_MOST_NAMED = 1_024
"""So many lists of fields are looked up once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedField:
    """A field that an UPDATE names.

    :param name: as the event has it.
    :param member: of a compound; empty: the field as a whole.
    :param columns: of the field.
    :param is_there: whether one of them is for it.
    """

    name: str
    member: str
    columns: tuple[Column, ...]
    is_there: bool


@dataclass(frozen=True, kw_only=True)
class Layout:
    """Columns of an entity's table that hold the values of fields.

    Columns of the header, the envelope and the apply itself are not among them.

    :param columns: a field that changed its kind has several columns; one has the value, and the
        others are null.
    """

    columns: tuple[Column, ...]

    @cached_property
    def _by_field(self) -> Mapping[str, tuple[Column, ...]]:
        found: dict[str, tuple[Column, ...]] = {}
        for column in self.columns:
            name = column.field.casefold()
            found[name] = (*found.get(name, ()), column)
        return found

    def of_field(self, name: str) -> tuple[Column, ...]:
        """Return the columns of a field, in the table's order.

        Upper and lower case are one name.
        """
        return self._by_field.get(name.casefold(), ())

    def missing(self, change: Change) -> str:
        """Name a field of the event that has no column; empty: all have one."""
        return next((one.name for one in self.named(change.fields) if not one.is_there), "")

    def named(self, names: tuple[str, ...]) -> tuple[NamedField, ...]:
        """Look up fields that an UPDATE names; whole compounds come before members.

        Found once: most updates of an entity name the same few fields.
        """
        if names not in self._named:
            if len(self._named) >= _MOST_NAMED:
                self._named.clear()
            found = map(self._named_field, names)
            self._named[names] = tuple(sorted(found, key=lambda one: bool(one.member)))
        return self._named[names]

    @cached_property
    def _named(self) -> dict[tuple[str, ...], tuple[NamedField, ...]]:
        return {}

    def row(self, values: Mapping[str, Any]) -> Values:
        """Make a complete row; a compound whose members are all null is null."""
        return {column.name: _settled(values.get(column.name)) for column in self.columns}

    def _named_field(self, name: str) -> NamedField:
        parent, dot, member = name.partition(".")
        columns = self.of_field(parent)
        is_there = any(not dot or member in dict(one.type.members) for one in columns)
        return NamedField(name=name, member=member, columns=columns, is_there=is_there)


@dataclass(frozen=True, slots=True)
class Problem:
    """A field that could not be set: reason and detail of the record's resync entry."""

    reason: Reason
    detail: str


class _ImmovableError(Exception):
    """The other members of a compound cannot be moved; the message says why."""


def updated(
    layout: Layout, values: Mapping[str, Any], change: Change
) -> tuple[Values, dict[str, Problem]]:
    """Apply an UPDATE whose fields all have columns (`Layout.missing`).

    :return: the values after the update; and, by field, the problem of each field that could not be
        set.
    """
    after = dict(values)
    problems: dict[str, Problem] = {}
    # A whole compound before its members: the event's value of the whole has those members, too.
    for one in layout.named(change.fields):
        name, columns = one.name, one.columns
        given = {} if name in change.nulled else change.values
        try:
            if one.member:
                after |= _with_member(columns, after, one.member, given)
            elif name in change.diffs:
                after |= _with_diff(columns, after, given)
            else:
                for column in columns:
                    after[column.name] = _settled(given.get(column.name))
        except UnpatchableError as reason:
            problems[name] = Problem("diff", str(reason))
        except _ImmovableError as reason:
            problems[name] = Problem("kind", str(reason))
    return after, problems


def _with_diff(
    columns: Sequence[Column], values: Mapping[str, Any], given: Mapping[str, Any]
) -> Values:
    """Return a text with a diff applied; null if the event carries no diff.

    :raises UnpatchableError: the diff does not lead from the value to one with its hash.
    """
    return {
        column.name: patched(values.get(column.name), given[column.name])
        if given.get(column.name) is not None
        else None
        for column in columns
    }


def _with_member(
    columns: Sequence[Column], values: Mapping[str, Any], member: str, given: Mapping[str, Any]
) -> Values:
    """A compound with one member set from the event's value of the compound, or nulled.

    :param columns: of the field; at most one of them has a value, before and afterwards.
    :raises _ImmovableError: the other members are in another column, and do not fit into this one.
    """
    having = [column for column in columns if member in dict(column.type.members)]
    taking = next((one for one in having if _member(given, one, member) is not None), None)
    holding = next((one for one in columns if values.get(one.name) is not None), None)
    target = taking or holding
    if target is None or target not in having:
        return {}  # a value of another kind has no such member, and says nothing of it
    before = values.get(target.name) or {}
    if holding is not None and holding is not target:
        before = _moved(values[holding.name], holding.type, target.type, member)
    after = {**before, member: _member(given, target, member)}
    text = target.type.text_member
    # A member set to null says nothing about a name that is text: it had no such member.
    if text and member != text and taking is not None:
        after[text] = None
    return {column.name: _settled(after) if column is target else None for column in columns}


def _member(given: Mapping[str, Any], column: Column, member: str) -> Any:
    value = given.get(column.name)
    return value.get(member) if isinstance(value, dict) else None


def _moved(value: Any, of: FieldType, to: FieldType, member: str) -> Values:
    """The other members of a compound for another column, as far as that column has them.

    :raises _ImmovableError: a member's value is not cast to the type that it has there.
    """
    if not isinstance(value, dict):
        return {}  # what is moved to a record is a record; text is cleared by it
    before = dict(of.members)
    return {
        name: _cast(name, value.get(name), before.get(name), kind)
        for name, kind in to.members
        if name != member
    }


def _cast(name: str, value: Any, of: FieldType | None, to: FieldType) -> Any:
    """A value in another type: the same type, or a number that a decimal or a double holds.

    :raises _ImmovableError: it is neither.
    """
    if value is None or of == to:
        return value
    if of is not None and of.kind in _NUMBERS:
        with suppress(ValueError):
            if to.kind == "decimal":
                return fitting_decimal(value, to)
            if to.kind == "double" and Decimal(repr(double := float(value))) == value:
                return double
    raise _ImmovableError(f"its member {name} is {value!r}, which does not become {to.sql()}")


def _settled(value: Any) -> Any:
    """Return null in place of a compound whose members are all null."""
    if isinstance(value, dict) and all(member is None for member in value.values()):
        return None
    return value
