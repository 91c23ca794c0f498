"""Evolution of a table's columns through random histories of schemas."""

from __future__ import annotations

from itertools import combinations, permutations
from typing import TYPE_CHECKING

from hypothesis import assume, given, strategies as st

from airflow_provider_sfevents.spark.schema.evolution import ON_TYPE_CHANGE, evolve, held
from airflow_provider_sfevents.spark.schema.field_types import FieldType
from airflow_provider_sfevents.spark.schema.recorded_types import Recorded

if TYPE_CHECKING:
    from airflow_provider_sfevents.spark.schema.evolution import OnTypeChange
    from airflow_provider_sfevents.spark.schema.field_types import Fields

    Batch = dict[str, Fields]

PLAIN = [
    FieldType(kind=kind)
    for kind in ("boolean", "int", "long", "double", "string", "date", "time", "json")
]
DECIMALS = [
    FieldType(kind="decimal", precision=precision, scale=scale)
    for precision, scale in ((18, 2), (10, 2), (38, 6))
]
# Few names: some like those of changed fields, some like one another, one of an envelope column.
NAMES = ("A", "a", "B", "A__double", "A__string", "A__struct", "A__double_2", "batch_id", "Name")


def structs(inner: st.SearchStrategy[FieldType]) -> st.SearchStrategy[FieldType]:
    return st.builds(
        lambda members, text: FieldType(
            kind="struct",
            members=(*members, *(((text, FieldType(kind="string")),) if text else ())),
            text_member=text,
        ),
        st.lists(
            st.tuples(st.sampled_from(("X", "Y", "x")), inner),
            min_size=1,
            max_size=3,
            unique_by=lambda member: member[0].casefold(),
        ),
        st.sampled_from(("", "", "Name", "Name_text")),
    )


def items(inner: st.SearchStrategy[FieldType]) -> st.SearchStrategy[FieldType]:
    return st.builds(
        lambda kind, item: FieldType(kind=kind, item=item), st.sampled_from(("array", "map")), inner
    )


TYPES = st.recursive(
    st.sampled_from([*PLAIN, *DECIMALS]),
    lambda inner: structs(inner) | items(inner),
    max_leaves=4,
)
FIELDS: st.SearchStrategy[Fields] = st.lists(
    st.tuples(st.sampled_from(NAMES), TYPES),
    min_size=1,
    max_size=5,
    unique_by=lambda field: field[0].casefold(),
).map(tuple)
BATCHES: st.SearchStrategy[Batch] = st.lists(FIELDS, min_size=1, max_size=3).map(
    lambda schemas: {f"s{index}": fields for index, fields in enumerate(schemas)}
)
HISTORIES = st.lists(BATCHES, min_size=1, max_size=4)
ANSWERS = st.sampled_from(ON_TYPE_CHANGE)


def after(history: list[Batch], answer: OnTypeChange = "new_column") -> Recorded:
    recorded = Recorded()
    for batch in history:
        recorded = evolve(recorded, batch, answer).after
    return recorded


@given(HISTORIES, BATCHES, ANSWERS)
def test_columns_stay_what_and_where_they_are(
    history: list[Batch], batch: Batch, answer: OnTypeChange
) -> None:
    """A recorded column keeps name, field, place and type, except for new members at its end."""
    before = after(history, answer)

    now = evolve(before, batch, answer).after

    for old, new in zip(before.columns, now.columns, strict=False):
        assert (new.name, new.field) == (old.name, old.field)
        assert_same_but_for_new_members(old.type, new.type)
    names = [column.name.casefold() for column in now.columns]
    assert len(set(names)) == len(names)
    assert len(now.columns) >= len(before.columns)
    assert "batch_id" not in names


def assert_same_but_for_new_members(old: FieldType, new: FieldType) -> None:
    assert (new.kind, new.text_member, new.precision, new.scale) == (
        old.kind,
        old.text_member,
        old.precision,
        old.scale,
    )
    assert [name for name, _ in new.members][: len(old.members)] == [
        name for name, _ in old.members
    ]
    for (_, was), (_, now) in zip(old.members, new.members, strict=False):
        assert_same_but_for_new_members(was, now)
    if old.item and new.item:
        assert_same_but_for_new_members(old.item, new.item)


@given(HISTORIES, BATCHES, ANSWERS)
def test_every_field_of_a_schema_that_lands_has_one_column_that_can_hold_it(
    history: list[Batch], batch: Batch, answer: OnTypeChange
) -> None:
    """Every field of a landed schema has a column that holds its values."""
    evolution = evolve(after(history, answer), batch, answer)
    types = {column.name: column.type for column in evolution.after.columns}

    assert set(evolution.filled) | set(evolution.refused) == set(batch)
    assert answer == "quarantine" or not evolution.refused
    for schema_id, columns in evolution.filled.items():
        assert sorted(columns.values()) == sorted(name for name, _ in batch[schema_id])
        own = dict(batch[schema_id])
        for column, field in columns.items():
            assert held(types[column], types[column], own[field]) == types[column]


@given(HISTORIES, BATCHES, ANSWERS)
def test_a_batch_again_changes_nothing(
    history: list[Batch], batch: Batch, answer: OnTypeChange
) -> None:
    """A batch that lands again, in any order of schemas, has the same columns and reasons."""
    first = evolve(after(history, answer), batch, answer)

    for order in permutations(batch):
        again = evolve(first.after, {schema_id: batch[schema_id] for schema_id in order}, answer)
        assert again.after == first.after
        assert again.filled == first.filled
        assert again.refused == first.refused
        assert not again.contested


@given(HISTORIES, BATCHES, HISTORIES)
def test_a_field_of_a_type_goes_to_one_column_for_good(
    history: list[Batch], batch: Batch, later: list[Batch]
) -> None:
    """A field of a type always goes to the same column."""
    first = evolve(after(history), batch)
    recorded = first.after
    for other in later:
        recorded = evolve(recorded, other).after

    assert evolve(recorded, batch).filled == first.filled


@given(HISTORIES, BATCHES)
def test_the_order_of_schemas_that_do_not_contradict_each_other_decides_only_about_order(
    history: list[Batch], batch: Batch
) -> None:
    """The order of schemas that agree decides only the order of columns."""
    assume(all(agree(one, other) for one, other in combinations(batch.values(), 2)))
    before = after(history)
    outcomes = [
        evolve(before, {schema_id: batch[schema_id] for schema_id in order})
        for order in permutations(batch)
    ]

    shapes = [
        {column.name: shape(column.type) for column in outcome.after.columns}
        for outcome in outcomes
    ]
    assert all(shape == shapes[0] for shape in shapes)
    assert all(outcome.filled == outcomes[0].filled for outcome in outcomes)


def agree(one: Fields, other: Fields) -> bool:
    """Return whether all fields of both may share columns, in either order."""
    theirs = {name.casefold(): (name, kind) for name, kind in other}
    for name, kind in one:
        their_name, their_kind = theirs.get(name.casefold(), (name, kind))
        if their_name != name:
            return False
        if held(None, kind, their_kind) is None or held(None, their_kind, kind) is None:
            return False
    return True


def shape(kind: FieldType) -> object:
    """A type without the order of its members."""
    members = {name: shape(member) for name, member in kind.members}
    item = shape(kind.item) if kind.item else None
    return kind.kind, members, item, kind.text_member, kind.precision, kind.scale


@given(HISTORIES)
def test_what_is_recorded_comes_back_from_its_text(history: list[Batch]) -> None:
    """Recorded columns are equal after a round trip, and equal columns have equal texts."""
    recorded = after(history)

    assert Recorded.from_json(recorded.to_json(), "here") == recorded
    assert after(history).to_json() == recorded.to_json()
