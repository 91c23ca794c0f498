"""Full records as REST and Bulk give them, made into rows of an entity's table. No I/O, no Spark.

They name fields as their APIs do: a compound comes as a struct (REST), or as one field for each
member (`BillingStreet` of `BillingAddress`, `Place__Latitude__s` of `Place__c`, `FirstName` of
`Name`). Values may all be text (Bulk's CSV), so the read does not tell which of its columns a field
fills that has several: the schema of the entity's change events does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.schema.field_types import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from airflow_provider_sfevents.spark.changes.fields import Layout
    from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType

ID = "id"
_FIVE_LAST = "([02468][.]?|^[^0-9]*)5(0*[.]?0*([eE].*)?)$"
"""Number whose last digit other than zero is a five, after an even digit or none."""
_NOT_FIELDS = frozenset({ID, "attributes"})
_PERSON = frozenset({"salutation", "firstname", "middlename", "lastname", "suffix"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Filling:
    """Mapping from the fields of an entity snapshot to columns of the table.

    :param columns: SQL for each column of the table that comes from a field.
    :param casts: values that are cast: the field, its text in SQL, and the cast in SQL, which is
        null if a value does not fit.
    :param ignored: fields of the read that fill no column.
    """

    columns: Mapping[str, str]
    casts: tuple[tuple[str, str, str], ...]
    ignored: tuple[str, ...]


def filling(
    layout: Layout,
    given: Mapping[str, Mapping[str, str]],
    entity: str,
    lacking: Collection[str] = (),
    filled: Collection[str] = (),
) -> Filling:
    """Decide the field or member that fills each column of a table.

    :param given: fields of the read by folded name, each with its members' names by folded name;
        none for a plain field. SQL names.
    :param lacking: fields of the table that the read is known not to have; they are null then.
    :param filled: columns that change events fill now, by the schema that they have at the time of
        the read.
    :raises ConfigurationError: the read has no record ids, lacks fields that the table has, or has
        one with several columns of which `filled` names none.
    """
    if ID not in given:
        raise ConfigurationError(
            f"The read of {entity} has no field Id, so its rows cannot be told apart. It has: "
            f"{', '.join(sorted(given)) or 'nothing'}."
        )
    work = _Filling(given)
    allowed = {name.casefold() for name in lacking}
    for column in layout.columns:
        several = layout.of_field(column.field)
        if len(several) == 1 or column.name in filled:
            work.fill(column)
        elif column.field.casefold() in allowed or any(one.name in filled for one in several):
            work.leave(column)
        else:
            raise ConfigurationError(
                f"{column.field} of {entity} has changed its kind and has several columns "
                f"({', '.join(one.name for one in several)}): nothing tells which of them the read "
                "fills. Give the schema that the entity's change events have now (--event-schema), "
                "with the --decimals of the apply. Where the org has the field no more, say so: "
                f"--lacking {column.field}."
            )
    if missing := [name for name in work.missing if name.casefold() not in allowed]:
        raise ConfigurationError(
            f"The read of {entity} lacks fields that its table has: {', '.join(missing)}. They "
            "would be null from then on. Read them too; or, "
            f"where the org has them no more, say so: --lacking {','.join(missing)}."
        )
    return Filling(
        columns=work.columns,
        casts=tuple(work.casts),
        ignored=tuple(sorted(given.keys() - work.used - _NOT_FIELDS)),
    )


class _Filling:
    def __init__(self, given: Mapping[str, Mapping[str, str]]) -> None:
        self._given = given
        self.columns: dict[str, str] = {}
        self.casts: list[tuple[str, str, str]] = []
        self.missing: list[str] = []
        self.used: set[str] = set()

    def leave(self, column: Column) -> None:
        """Leave a column null, because the field's values are in another one."""
        self.columns[column.name] = f"cast(null AS {column.type.sql()})"

    def fill(self, column: Column) -> None:
        null = f"cast(null AS {column.type.sql()})"
        if column.type.kind == "struct":
            self.columns[column.name] = self._struct(column) or null
        elif column.field.casefold() in self._given:
            name = self._use(column.field)
            self.columns[column.name] = self._cast(column.field, name, column.type)
        else:
            self.missing.append(column.field)
            self.columns[column.name] = null

    def _struct(self, column: Column) -> str:
        """Make the SQL of a compound from its members, nested or fields of their own.

        A plain text without members stays text. The SQL is empty if the read has neither.
        """
        own = dict(self._members(column))
        if not own:
            self.missing.append(column.field)
            return ""
        kind = column.type
        there = " OR ".join(f"{sql} IS NOT NULL" for sql in own.values())
        members = [
            f"{own.get(name, f'cast(null AS {of.sql()})')} AS {quoted(name)}"
            for name, of in kind.members
        ]
        text = kind.text_member
        if text and text in own:
            persons = [sql for name, sql in own.items() if name != text]
            is_person = " OR ".join(f"{sql} IS NOT NULL" for sql in persons) or "false"
            members = [
                f"CASE WHEN {is_person} THEN null ELSE {own[text]} END AS {quoted(name)}"
                if name == text
                else said
                for (name, _), said in zip(kind.members, members, strict=True)
            ]
        return f"CASE WHEN {there} THEN struct({', '.join(members)}) END"

    def _members(self, column: Column) -> Iterator[tuple[str, str]]:
        inner = self._given.get(column.field.casefold(), {})
        for member, kind in column.type.members:
            if member.casefold() in inner:
                sql = f"{self._use(column.field)}.{quoted(inner[member.casefold()])}"
            elif member == column.type.text_member:
                if column.field.casefold() not in self._given or inner:
                    continue
                sql = self._use(column.field)
            else:
                names = _outside(column.field, member)
                found = next((name for name in names if name.casefold() in self._given), "")
                if not found:
                    continue
                sql = self._use(found)
            yield member, self._cast(f"{column.field}.{member}", sql, kind)

    def _use(self, name: str) -> str:
        self.used.add(name.casefold())
        return quoted(name)

    def _cast(self, name: str, sql: str, kind: FieldType) -> str:
        # To Salesforce empty text is none, and Bulk writes the one for the other.
        text = f"nullif(cast({sql} AS string), '')"
        if kind.kind in {"string", "json"}:
            return text
        if kind.kind == "time":
            # `10:00:00.000Z`; the table has it without the zone.
            return f"regexp_replace({text}, 'Z$', '')"
        if kind.kind == "binary":
            return f"unbase64({text})"
        if kind.kind == "timestamp":
            text = f"regexp_replace({text}, '([+-][0-9]{{2}})([0-9]{{2}})$', '$1:$2')"
        if kind.kind in {"int", "long"}:
            # A whole number may come as 3.0.
            text = f"regexp_replace({text}, '[.]0+$', '')"
        cast = f"try_cast({text} AS {kind.sql()})"
        if kind.kind == "decimal":
            cast = _half_to_even(text, kind)
        self.casts.append((name, text, cast))
        return cast


def _half_to_even(text: str, kind: FieldType) -> str:
    """Cast a number's text to a decimal, and round it as the values of events are.

    A cast rounds half up, which differs for a number in the middle of two decimals, the lower of
    which is even. It has a five (`_FIVE_LAST`) in place of which a six makes the same decimal, and
    a four the lower one.
    """

    def cast(last: int) -> str:
        changed = f"regexp_replace({text}, '{_FIVE_LAST}', '$1{last}$2')"
        return f"try_cast({changed} AS {kind.sql()})"

    up = f"try_cast({text} AS {kind.sql()})"
    return f"CASE WHEN {cast(6)} = {up} THEN {cast(4)} ELSE {up} END"


def _outside(field: str, member: str) -> tuple[str, ...]:
    """Possible names of a compound's member as a field of its own."""
    if field.endswith("__c"):
        return (f"{field.removesuffix('c')}{member}__s",)
    if member.casefold() in _PERSON:
        return (member,)
    return (f"{field.removesuffix('Address')}{member}",)
