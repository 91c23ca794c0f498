"""What an UPDATE does to a record's values: exactly the fields it names, and nothing else.

`Parent` stands for a compound as a whole, `Parent.Member` for that member alone. A compound whose members are all null is null. Where a
field may be text or a record (the name of an account that may be a person), setting the one clears the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.changes.diffs import Unpatchable, patched

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.fieldtypes import Column

Values = dict[str, Any]
"""A record's values by column."""


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of an entity's table that come from fields; without the header, the envelope and this room's own.

    :param columns: where a field changed its kind it has several columns: the one with the value, and others that are null then.
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
        """The columns that a field's values go to, in the table's order; upper and lower case are one name."""
        return self._by_field.get(name.casefold(), ())

    def missing(self, change: Change) -> str:
        """Name a field of the event that has no column; empty: all have one."""
        return next((name for name in change.fields if not self._has(name)), "")

    def row(self, values: Mapping[str, Any]) -> Values:
        """Make a whole row: every column, the compounds that are all null as null."""
        return {column.name: _settled(values.get(column.name)) for column in self.columns}

    def _has(self, name: str) -> bool:
        parent, dot, member = name.partition(".")
        columns = self.of_field(parent)
        if not dot:
            return bool(columns)
        return any(member in dict(column.type.members) for column in columns)


def updated(
    layout: Layout, values: Mapping[str, Any], change: Change
) -> tuple[Values, dict[str, str]]:
    """Apply an UPDATE whose fields all have columns (`Layout.missing`).

    :return: the values after it; and, by field, why a diff could not be applied: these are as they were.
    """
    after = dict(values)
    problems: dict[str, str] = {}
    # A whole compound before its members: the event's value of the whole has those members, too.
    for name in sorted(change.fields, key=lambda name: "." in name):
        parent, _, member = name.partition(".")
        for column in layout.of_field(parent):
            given = None if name in change.nulled else change.values.get(column.name)
            if member:
                after[column.name] = _with_member(column, after.get(column.name), member, given)
            elif name not in change.diffs or given is None:
                after[column.name] = _settled(given)
            else:
                try:
                    after[column.name] = patched(after.get(column.name), given)
                except Unpatchable as reason:
                    problems[name] = str(reason)
    return after, problems


def nulled(layout: Layout, values: Mapping[str, Any], change: Change) -> Values:
    """Null every field that a change of a whole prefix names, whatever values it carries."""
    after = dict(values)
    for name in change.fields:
        parent, _, member = name.partition(".")
        for column in layout.of_field(parent):
            if member:
                after[column.name] = _with_member(column, after.get(column.name), member, None)
            else:
                after[column.name] = None
    return after


def _with_member(column: Column, current: Any, member: str, given: Any) -> Any:
    """A compound with one member set from the event's value of the compound; None: set to null."""
    if member not in dict(column.type.members):
        return None  # the field was of another kind when this column was filled
    value = given.get(member) if isinstance(given, dict) else None
    after = {**(current or {}), member: value}
    text = column.type.text_member
    # A member set to null says nothing about a name that is text: it had no such member.
    if text and member != text and value is not None:
        after[text] = None
    return _settled(after)


def _settled(value: Any) -> Any:
    """A compound of which nothing is left is null."""
    if isinstance(value, dict) and all(member is None for member in value.values()):
        return None
    return value
