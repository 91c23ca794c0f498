"""Evolve a table's columns by the schemas of a batch. No I/O, no Spark.

1. Columns are added, never dropped, and keep their order; new ones come last. The same holds for
   members of structs.
2. A column's type never changes, except that a struct gets members. So all files of a table can be
   read together, in every format: one file with a wider number makes a merged read of Parquet fail,
   and tables that widen in place need newer readers.
3. A field's values go to the first of its columns, in the table's order, that can hold them. If
   none can, the field has changed in kind: it gets one more column, named after the new kind, or
   its events go to quarantine, as configured.

A value that a column cannot hold today it can never hold (3 depends on that), because its type
stays, and added members change nothing for it. So a field of a type always goes to the same column.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING, Literal

from airflow_provider_sfevents.spark.schema.envelope import column_name
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set as AbstractSet

    from airflow_provider_sfevents.spark.schema.field_types import Fields, Kind

OnTypeChange = Literal["new_column", "quarantine"]
ON_TYPE_CHANGE: tuple[OnTypeChange, ...] = ("new_column", "quarantine")

# Numbers that a column of another type holds exactly. No long in a double: above 2**53 it would
# change.
_FITS: frozenset[tuple[Kind, Kind]] = frozenset({("int", "long"), ("int", "double")})
_DIGITS: Mapping[Kind, int] = {"int": 10, "long": 19}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolution:
    """Change of one table's columns by a batch.

    :param before: the columns before.
    :param after: the columns of the batch's files, and of the table from then on.
    :param schemas: the fields of each schema, by its id.
    :param filled: by schema id, the columns that its events fill, each with the field's name in
        that schema.
    :param refused: reasons by id of schemas whose events go to quarantine.
    :param contested: schemas of the batch contradict each other about new columns, so that their
        order decided.
    """

    before: Recorded
    after: Recorded
    schemas: Mapping[str, Fields]
    filled: Mapping[str, Mapping[str, str]]
    refused: Mapping[str, str]
    contested: bool


def evolve(
    before: Recorded, schemas: Mapping[str, Fields], on_type_change: OnTypeChange = "new_column"
) -> Evolution:
    """Find a column for every field of a batch's schemas.

    A new column takes the widest type of its schemas (long, if one has int and another one long).
    If no two schemas contradict each other, their order decides only the order of new columns and
    members.

    :param schemas: fields by schema id; in a contradiction the first one chooses first.
    """
    slots = [_Slot(column, column.type) for column in before.columns]
    filled: dict[str, Mapping[int, str]] = {}
    refused: list[str] = []
    contested = False
    for schema_id, fields in schemas.items():
        placing = _Placing(slots)
        for name, kind in fields:
            placing.place(name, kind)
        contested |= placing.contested
        if placing.changed and on_type_change == "quarantine":
            refused.append(schema_id)
        else:
            filled[schema_id] = placing.filled
            slots = placing.slots
    own_names = {column_name(name).casefold() for fields in schemas.values() for name, _ in fields}
    columns = _named(slots, own_names)
    return Evolution(
        before=before,
        after=Recorded(columns=columns),
        schemas=schemas,
        filled={
            schema_id: {columns[index].name: field for index, field in places.items()}
            for schema_id, places in filled.items()
        },
        refused={schema_id: _reason(schemas[schema_id], columns) for schema_id in refused},
        contested=contested,
    )


def held(recorded: FieldType | None, now: FieldType, new: FieldType) -> FieldType | None:
    """Type of a column that holds its `now` values and the `new` ones; None if there is none.

    :param recorded: its type before the batch; None for a new column, whose numbers may be widened.
    """
    if now == new:
        return now
    if now.kind == "struct":
        return _held_struct(recorded, now, new)
    if now.item is not None and new.item is not None and now.kind == new.kind:
        item = held(recorded.item if recorded else None, now.item, new.item)
        return replace(now, item=item) if item else None
    if _fits(new, now):
        return now
    return new if recorded is None and _fits(now, new) else None


def _held_struct(recorded: FieldType | None, now: FieldType, new: FieldType) -> FieldType | None:
    if new.kind == "string" and now.text_member:
        return now  # text goes to the member for text
    if new.kind != "struct" or _mistakes_text(now, new):
        return None
    spelled = {name.casefold(): name for name, _ in now.members}
    members = dict(now.members)
    before = dict(recorded.members) if recorded else {}
    for name, kind in new.members:
        if spelled.get(name.casefold(), name) != name:
            return None  # one member for SQL, two for a decoder
        found = held(before.get(name), members[name], kind) if name in members else kind
        if found is None:
            return None
        members[name] = found
    return replace(now, members=tuple(members.items()))


def _mistakes_text(now: FieldType, new: FieldType) -> bool:
    """Return whether text would go to a member of the record's own, or the other way round."""
    if new.text_member:
        return new.text_member != now.text_member
    return bool(now.text_member) and now.text_member.casefold() in {
        name.casefold() for name, _ in new.members
    }


def _fits(small: FieldType, large: FieldType) -> bool:
    if large.kind == "decimal":
        digits = _DIGITS.get(small.kind)
        return digits is not None and digits <= large.precision - large.scale
    return (small.kind, large.kind) in _FITS


@dataclass(frozen=True, slots=True)
class _Slot:
    """A column during the evolution; if `recorded` is None it is new and has no name yet."""

    column: Column
    recorded: FieldType | None


class _Placing:
    """Assignment of one schema's fields to columns.

    :param slots: the columns so far; not changed.
    """

    def __init__(self, slots: Iterable[_Slot]) -> None:
        self.slots = list(slots)
        self.filled: dict[int, str] = {}
        self.changed = False
        self.contested = False
        self._of_field: dict[str, list[int]] = {}
        for index, slot in enumerate(self.slots):
            # To Salesforce as to SQL, upper and lower case are one name.
            self._of_field.setdefault(slot.column.field.casefold(), []).append(index)

    def place(self, name: str, kind: FieldType) -> None:
        here = self._of_field.get(name.casefold(), [])
        for index in here:
            slot = self.slots[index]
            found = held(slot.recorded, slot.column.type, kind)
            if found:
                self.slots[index] = replace(slot, column=replace(slot.column, type=found))
                self.filled[index] = name
                return
        if here:
            self.changed = True
            self.contested |= any(
                self.slots[index].recorded != self.slots[index].column.type for index in here
            )
        self.filled[len(self.slots)] = name
        self.slots.append(_Slot(Column(name="", field=name, type=kind), None))


def _reason(fields: Fields, columns: Sequence[Column]) -> str:
    """Name the fields that the table cannot hold.

    They are compared with the table's columns after the batch, so that the reason is the same if
    the batch lands again.
    """
    types: dict[str, list[FieldType]] = {}
    for column in columns:
        types.setdefault(column.field.casefold(), []).append(column.type)
    return "; ".join(
        f"field {name} is {kind.sql()}, but in the table it is "
        f"{' or '.join(one.sql() for one in there)}"
        for name, kind in fields
        if (there := types.get(name.casefold())) and not any(held(one, one, kind) for one in there)
    )


def _named(slots: Sequence[_Slot], own_names: AbstractSet[str]) -> tuple[Column, ...]:
    """Name the new columns.

    A field's first column is named after the field, a further one also after its kind; a number
    follows if the name is taken. Columns are named in the order of their fields, so that the order
    of schemas does not decide about names.

    :param own_names: names of the batch's fields, in folded case.
    """
    columns = [slot.column for slot in slots]
    taken = {slot.column.name.casefold() for slot in slots if slot.recorded}
    known: set[str] = set()
    for field, index in sorted((slot.column.field.casefold(), n) for n, slot in enumerate(slots)):
        column = columns[index]
        if slots[index].recorded is None:
            further = field in known
            wanted = (
                f"{column.field}__{_suffix(column.type)}" if further else column_name(column.field)
            )
            name = _free(wanted, taken | own_names if further else taken, taken | own_names)
            columns[index] = replace(column, name=name)
            taken.add(name.casefold())
        known.add(field)
    return tuple(columns)


def _free(wanted: str, taken: AbstractSet[str], taken_counted: AbstractSet[str]) -> str:
    if wanted.casefold() not in taken:
        return wanted
    return next(name for n in count(2) if (name := f"{wanted}_{n}").casefold() not in taken_counted)


def _suffix(kind: FieldType) -> str:
    return f"decimal_{kind.precision}_{kind.scale}" if kind.kind == "decimal" else kind.kind
