"""Report changes of tables' columns by a batch, for log and receipt. No I/O, no Spark."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_sfevents.spark.schema.recorded_types import additions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from airflow_provider_sfevents.spark.schema.event_columns import SchemaPlan
    from airflow_provider_sfevents.spark.schema.evolution import Evolution
    from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType

What = Literal["new_table", "added", "changed", "widened", "absent", "quarantined"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One change.

    :param what: `new_table`; `added`: a field, or a member of a compound, that the table did not
        have; `changed`: a field's kind, so that it gets one more column; `widened`: a field's
        values go to a column of another type that holds them; `absent`: a field of the table that a
        schema does not have; `quarantined`: the events of a schema.
    :param column: the column, or `Column.Member`; empty for a table or a schema.
    :param type: of the column, in SQL; for `widened`, of the field.
    :param of_table: for `changed` and `widened`: earlier columns of the field, with types in SQL.
    :param schemas: ids of the schemas with the change.
    :param reason: for `quarantined`.
    """

    event_type: str
    what: What
    column: str = ""
    type: str = ""
    of_table: str = ""
    schemas: tuple[str, ...] = ()
    reason: str = ""

    def text(self) -> str:
        """One line for a log."""
        schemas = f"schema {', '.join(self.schemas)}"
        match self.what:
            case "new_table":
                said = f"a new table ({schemas})"
            case "added":
                said = f"{self.column} ({self.type}) is new ({schemas})"
            case "changed":
                said = (
                    f"a field changed in kind: its values go to the new column {self.column} "
                    f"({self.type}), and {self.of_table} is null for them ({schemas})"
                )
            case "widened":
                said = f"values of type {self.type} go to {self.of_table} ({schemas})"
            case "absent":
                said = f"{self.column} ({self.type}) has no field any more and is null ({schemas})"
            case _:
                said = f"events go to quarantine: {self.reason}"
        return f"{self.event_type}: {said}."

    def to_dict(self) -> dict[str, Any]:
        """Values for JSON, without empty ones."""
        return {key: value for key, value in asdict(self).items() if value}


def drift_report(plan: SchemaPlan, new_schemas: Collection[str]) -> tuple[Drift, ...]:
    """List the changes of a batch by event type; usually there are none.

    Fields in another order are not reported, because columns keep their order.

    :param new_schemas: ids of schemas that had not landed before. Fields that a schema lacks or
        widens are reported with its first batch only.
    """
    return tuple(
        change
        for name, evolution in sorted(plan.evolutions.items())
        for change in _of_type(name, evolution, plan, frozenset(new_schemas))
    )


def _of_type(
    name: str, evolution: Evolution, plan: SchemaPlan, new_schemas: frozenset[str]
) -> Iterator[Drift]:
    change = partial(Drift, event_type=name)
    if not evolution.before.columns and evolution.filled:
        yield change(what="new_table", schemas=tuple(sorted(evolution.filled)))
    yield from _added(name, evolution)
    for schema_id in sorted(new_schemas & set(evolution.filled)):
        for column, kind in _widened(evolution, schema_id):
            said = {"column": column.name, "type": kind.sql(), "of_table": _listed([column])}
            yield change(what="widened", schemas=(schema_id,), **said)
        for column in _absent(evolution, schema_id):
            said = {"column": column.name, "type": column.type.sql()}
            yield change(what="absent", schemas=(schema_id,), **said)
    for schema_id in sorted(plan.refused):
        if plan.names[schema_id] == name:
            reason = plan.refused[schema_id]
            yield change(what="quarantined", schemas=(schema_id,), reason=reason)


def _added(name: str, evolution: Evolution) -> Iterator[Drift]:
    for path, kind, column in additions(evolution.before, evolution.after):
        others = _others(evolution, column) if len(path) == 1 else []
        if others or evolution.before.columns:
            yield Drift(
                event_type=name,
                what="changed" if others else "added",
                column=".".join(path),
                type=kind.sql(),
                of_table=_listed(others),
                schemas=_filling(evolution, column),
            )


def _widened(evolution: Evolution, schema_id: str) -> Iterator[tuple[Column, FieldType]]:
    own = dict(evolution.schemas[schema_id])
    fields = evolution.filled[schema_id]
    for column in evolution.before.columns:
        kind = own[fields[column.name]] if column.name in fields else column.type
        if kind.kind != column.type.kind:
            yield column, kind


def _absent(evolution: Evolution, schema_id: str) -> list[Column]:
    fields = {field.casefold() for field, _ in evolution.schemas[schema_id]}
    return [one for one in evolution.before.columns if one.field.casefold() not in fields]


def _others(evolution: Evolution, column: Column) -> list[Column]:
    """Columns of the same field that come before this one."""
    before = evolution.after.columns[: evolution.after.columns.index(column)]
    return [other for other in before if other.field.casefold() == column.field.casefold()]


def _filling(evolution: Evolution, column: Column) -> tuple[str, ...]:
    return tuple(
        sorted(schema_id for schema_id, fields in evolution.filled.items() if column.name in fields)
    )


def _listed(columns: list[Column]) -> str:
    return " and ".join(f"{column.name} ({column.type.sql()})" for column in columns)
