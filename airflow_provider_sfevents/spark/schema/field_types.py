"""Column types of an event schema's fields. No I/O, no Spark.

Avro has a `long` for a date, a timestamp and a time of day; Salesforce names the type in the
field's `doc` (`Data:DateOnly:00N...`). If an Avro union has both text and a record (the name of an
account that may be a person), the column is the record with one more member, named like the field,
for the text.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Kind = Literal[
    "boolean",
    "int",
    "long",
    "double",
    "decimal",
    "string",
    "binary",
    "date",
    "timestamp",
    "time",
    "struct",
    "array",
    "map",
    "json",
]

_PLAIN: Mapping[str, Kind] = {
    "null": "string",  # a field that is always null needs some type
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "double",
    "double": "double",
    "string": "string",
    "enum": "string",
    "bytes": "binary",
    "fixed": "binary",
}

# The type part of `doc`, for fields that Avro calls long.
_BY_DOC: Mapping[str, Kind] = {
    "DateTime": "timestamp",
    "DateOnly": "date",
    "Birthday": "date",
    "TimeOnly": "time",
}

_SQL: Mapping[Kind, str] = {"long": "bigint", "time": "string", "json": "string"}
"""Names in Spark's DDL of kinds with another name there."""


class UntypeableError(Exception):
    """No column type can hold a field; the message names it and the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldType:
    """A column type.

    :param kind: `time` is text `HH:mm:ss.SSS`; `json` is text, too, for unions that no column type
        has. `decimal` is filled from ints, longs and doubles: from the shortest decimal text of a
        double (its `repr`), rounded half to even to the scale. A value that then has more digits
        than the precision, or is not finite, does not fit.
    :param members: of a struct; in the schema's order, or in the order in which the table got them.
    :param item: of an array or the values of a map.
    :param text_member: of a struct that may be plain text instead: name of the member for the text.
    :param precision: of a decimal, 1 to 38: its digits, including those after the point.
    :param scale: of a decimal: digits after the point.
    """

    kind: Kind
    members: tuple[tuple[str, FieldType], ...] = ()
    item: FieldType | None = None
    text_member: str = ""
    precision: int = 0
    scale: int = 0

    def sql(self) -> str:
        """Type in Spark's DDL."""
        if self.kind == "struct":
            inner = ", ".join(f"{quoted(name)}: {member.sql()}" for name, member in self.members)
            return f"struct<{inner}>"
        if self.item is not None:
            key = "" if self.kind == "array" else "string, "
            return f"{self.kind}<{key}{self.item.sql()}>"
        if self.kind == "decimal":
            return f"decimal({self.precision},{self.scale})"
        return _SQL.get(self.kind, self.kind)

    def member_names(self) -> tuple[str, ...]:
        """Names of the record's own members, in the order of bitmaps."""
        return tuple(name for name, _ in self.members if name != self.text_member)


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table, and the field of the event that fills it.

    :param field: its name; empty for a column without a field in the event.
    """

    name: str
    field: str
    type: FieldType


Fields = tuple[tuple[str, FieldType], ...]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def record_fields(schema: Mapping[str, Any]) -> Fields:
    """Types of an event schema's fields, in its order.

    :param schema: the schema's JSON, a record.
    :raises UntypeableError: two names differ only in case, which no SQL engine tells apart, or a
        record contains itself.
    """
    return _Reader().record(schema, schema.get("namespace", "")).members


def _refuse_twins(names: Iterator[str]) -> None:
    seen: dict[str, str] = {}
    for name in names:
        twin = seen.setdefault(name.casefold(), name)
        if twin != name:
            raise UntypeableError(f"fields {twin} and {name} differ only in case")


class _Reader:
    """Reader of one schema; remembers named types, which later fields refer to by name."""

    def __init__(self) -> None:
        self._named: dict[str, FieldType] = {}
        self._open: set[str] = set()

    def record(self, schema: Mapping[str, Any], namespace: str) -> FieldType:
        full = _full_name(schema["name"], schema.get("namespace", namespace))
        if full in self._open:
            raise UntypeableError(f"record {full} contains itself")
        self._open.add(full)
        inner = full.rpartition(".")[0]
        members = tuple(
            (field["name"], self._field(field, inner, full)) for field in schema["fields"]
        )
        _refuse_twins(name for name, _ in members)
        if len({name for name, _ in members}) < len(members):
            raise UntypeableError(f"record {full} has two fields of one name")
        self._open.discard(full)
        return self._remember(full, FieldType(kind="struct", members=members))

    def _field(self, field: Mapping[str, Any], namespace: str, owner: str) -> FieldType:
        found = self._type(field["type"], namespace, field["name"])
        if found.kind != "long":
            return found
        if owner.endswith("ChangeEventHeader") and field["name"] == "commitTimestamp":  # has no doc
            return FieldType(kind="timestamp")
        hint = (field.get("doc") or "").split(":")[1:2]
        return FieldType(kind=_BY_DOC.get(hint[0], "long")) if hint else found

    def _type(self, avro: Any, namespace: str, name: str) -> FieldType:
        if isinstance(avro, list):
            return self._union(avro, namespace, name)
        if isinstance(avro, str):
            return FieldType(kind=_PLAIN[avro]) if avro in _PLAIN else self._known(avro, namespace)
        return self._complex(avro, namespace, name)

    def _complex(self, avro: Mapping[str, Any], namespace: str, name: str) -> FieldType:
        match avro["type"]:
            case "record":
                found = self.record(avro, namespace)
                # Parquet has no record without members.
                return found if found.members else FieldType(kind="json")
            case "array":
                return FieldType(kind="array", item=self._type(avro["items"], namespace, name))
            case "map":
                return FieldType(kind="map", item=self._type(avro["values"], namespace, name))
            case "enum" | "fixed" as kind:
                full = _full_name(avro["name"], avro.get("namespace", namespace))
                return self._remember(full, FieldType(kind=_PLAIN[kind]))
            case inner:
                return self._type(inner, namespace, name)

    def _union(self, branches: list[Any], namespace: str, name: str) -> FieldType:
        found = [self._type(branch, namespace, name) for branch in branches if branch != "null"]
        if len(found) == 1:
            return found[0]
        structs = [kind for kind in found if kind.kind == "struct"]
        texts = [kind for kind in found if kind.kind == "string"]
        if len(found) == 2 and len(structs) == len(texts) == 1:
            return _struct_or_text(structs[0], name)
        return FieldType(kind="json" if found else "string")

    def _known(self, name: str, namespace: str) -> FieldType:
        for full in (_full_name(name, namespace), name):
            if full in self._named:
                return self._named[full]
            if full in self._open:
                raise UntypeableError(f"record {full} contains itself")
        raise UntypeableError(f"type {name} is nowhere defined in the schema")

    def _remember(self, full: str, found: FieldType) -> FieldType:
        self._named[full] = found
        return found


def _struct_or_text(struct: FieldType, name: str) -> FieldType:
    taken = {member.casefold() for member, _ in struct.members}
    text = name if name.casefold() not in taken else f"{name}_text"
    members = (*struct.members, (text, FieldType(kind="string")))
    return FieldType(kind="struct", members=members, text_member=text)


def _full_name(name: str, namespace: str) -> str:
    return name if "." in name or not namespace else f"{namespace}.{name}"


def without_logical_types(schema: Any) -> Any:
    """Copy a schema so that it decodes to plain numbers; their types come from `doc`."""
    if isinstance(schema, list):
        return [without_logical_types(branch) for branch in schema]
    if isinstance(schema, dict):
        return {
            key: without_logical_types(value)
            for key, value in schema.items()
            if key != "logicalType"
        }
    return schema


def event_type(schema_json: str) -> str:
    """Name of a schema's event type: its record's name, without namespace.

    :raises ValueError: the text is no JSON of an Avro record.
    """
    schema = json.loads(schema_json)
    if not isinstance(schema, dict) or schema.get("type") != "record" or not schema.get("name"):
        raise ValueError("it is not an Avro record")
    return str(schema["name"]).rpartition(".")[2]
