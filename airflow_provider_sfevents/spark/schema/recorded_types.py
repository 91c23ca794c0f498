"""Record of a table's columns: their types in all files, and their fields. No I/O, no Spark.

It is kept beside the table, because the table has less information: text, a time of day and JSON
are all strings there, and several columns may have one field.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType, Kind

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSION = 1
_KINDS: frozenset[str] = frozenset(get_args(Kind))


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A table's columns beside the envelope, in the table's order. Empty: there is no table yet.

    :param found: there is no record; the columns were read off the table (`found_columns`).
    """

    columns: tuple[Column, ...] = ()
    found: bool = False

    def to_json(self) -> str:
        columns = [
            {"name": column.name, "field": column.field, "type": _type_to_json(column.type)}
            for column in self.columns
        ]
        return json.dumps({"version": VERSION, "columns": columns}, indent=1)

    @classmethod
    def from_json(cls, text: str, where: str) -> Recorded:
        """Read the text of `to_json`.

        :param where: the file or table of the text, for the message.
        :raises StagingError: the text is damaged, or of a newer release.
        """
        try:
            value = json.loads(text)
            version = value["version"]
            if version == VERSION:
                return cls(columns=_columns(value["columns"]))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StagingError(
                f"{where} is no record of a table's columns ({type(error).__name__}: {error}); "
                "nothing was landed. Restore it from a copy: the next files need the types of "
                "their columns."
            ) from error
        raise StagingError(
            f"{where} has version {version!r} of the record of a table's columns, and this release "
            f"reads version {VERSION}; nothing was landed. Land with the release that wrote it, or "
            "a newer one."
        )


def additions(
    before: Recorded, after: Recorded
) -> tuple[tuple[tuple[str, ...], FieldType, Column], ...]:
    """New columns, and new members of structs, that turn a table of `before` into one of `after`.

    :returns: path, type and column of each, in the table's order. A path is a column's name, then
        members' names; as in `ALTER TABLE ... ADD COLUMNS`, `element` stands for the items of an
        array and `value` for those of a map.
    """
    had = {column.name: column.type for column in before.columns}
    return tuple(
        (path, kind, column)
        for column in after.columns
        for path, kind in _added(had.get(column.name), column.type, (column.name,))
    )


def _added(
    had: FieldType | None, has: FieldType, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], FieldType]]:
    if had is None:
        yield path, has
    elif has.item is not None:
        step = "element" if has.kind == "array" else "value"
        yield from _added(had.item, has.item, (*path, step))
    else:
        members = dict(had.members)
        for name, member in has.members:
            yield from _added(members.get(name), member, (*path, name))


def _type_to_json(kind: FieldType) -> Any:
    if kind.kind == "decimal":
        return {"kind": "decimal", "precision": kind.precision, "scale": kind.scale}
    if kind.item is not None:
        return {"kind": kind.kind, "item": _type_to_json(kind.item)}
    if kind.kind == "struct":
        members = [{"name": name, "type": _type_to_json(member)} for name, member in kind.members]
        text = {"text_member": kind.text_member} if kind.text_member else {}
        return {"kind": "struct", "members": members, **text}
    return kind.kind


def _columns(value: Any) -> tuple[Column, ...]:
    columns = tuple(
        Column(
            name=_text(one["name"]), field=_text(one["field"]), type=_type_from_json(one["type"])
        )
        for one in value
    )
    _refuse_twins([column.name for column in columns])
    return columns


def _type_from_json(value: Any) -> FieldType:
    if isinstance(value, str):
        return FieldType(kind=_kind(value, among=_KINDS - {"struct", "array", "map", "decimal"}))
    kind = _kind(value["kind"], among=_KINDS & {"struct", "array", "map", "decimal"})
    if kind == "decimal":
        return FieldType(kind=kind, precision=int(value["precision"]), scale=int(value["scale"]))
    if kind != "struct":
        return FieldType(kind=kind, item=_type_from_json(value["item"]))
    members = tuple((_text(one["name"]), _type_from_json(one["type"])) for one in value["members"])
    names = [name for name, _ in members]
    _refuse_twins(names)
    text = value.get("text_member", "")
    if text and text not in names:
        raise ValueError(f"the struct has no member {text!r} for its text")
    return FieldType(kind="struct", members=members, text_member=text)


def _kind(value: Any, *, among: frozenset[str]) -> Kind:
    if value not in among:
        raise ValueError(f"{value!r} is no kind of column")
    found: Kind = value
    return found


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no name")
    return value


def _refuse_twins(names: list[str]) -> None:
    if len({name.casefold() for name in names}) < len(names):
        raise ValueError(f"two of the names {', '.join(names)} are one")
