"""Effect of an edit on a record, and the content of its change event. No I/O, no clock.

Rules, from the Change Data Capture Developer Guide: a creation and an undeletion carry every field
that has a value; an update carries the changed fields; a deletion carries none. Unchanged fields
are not in `changedFields`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_sfevents.emulator.bus.avro_types import avro_type
from airflow_provider_sfevents.emulator.org.objects import field_values
from airflow_provider_sfevents.emulator.org.objects.object_definitions import Field, SObject, expand
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError, not_found
from airflow_provider_sfevents.emulator.org.records import text_diffs

if TYPE_CHECKING:
    from collections.abc import Mapping

Kind = Literal["CREATE", "UPDATE", "DELETE", "UNDELETE"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """An immutable record.

    :param values: values by plain field name, as from `field_values.read`; fields without a value
        are missing.
    :param deleted_at: milliseconds since the epoch; None if not in the recycle bin.
    """

    id: str
    entity: str
    values: Mapping[str, Any]
    deleted_at: int | None = None

    def get(self, name: str) -> Any:
        """Value of a plain field, including system fields."""
        match name:
            case "Id":
                return self.id
            case "IsDeleted":
                return self.deleted_at is not None
            case "SystemModstamp":
                return max(self.values.get("LastModifiedDate", 0), self.deleted_at or 0)
        return self.values.get(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEdit:
    """A requested change.

    :param given: values by plain field name; None for no value.
    :param gap: publish a gap event, which states only that something changed.
    """

    kind: Kind
    entity: str
    record_id: str
    user_id: str
    given: Mapping[str, Any] = field(default_factory=dict)
    gap: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeDraft:
    """Content of an edit's change event.

    :param fields: body: a dict for a compound, None for a removed value.
    :param diffs: names of fields whose value is a diff.
    :param record: record after the edit.
    :param before: record before it; None for a creation.
    """

    change_type: str
    entity: str
    record_id: str
    user_id: str
    record: Record
    before: Record | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    diffs: tuple[str, ...] = ()


def read_given(sobject: SObject, given: Mapping[str, Any]) -> dict[str, Any]:
    """Convert client values to record values, by plain field name.

    :raises RecordRefusedError: a field is unknown or belongs to the platform, or a value does not
        fit.
    """
    plain: dict[str, Any] = {}
    for name, value in expand(sobject, given).items():
        found = sobject.find(name)
        if not isinstance(found, Field) or found.read_only:
            raise RecordRefusedError(
                "INVALID_FIELD_FOR_INSERT_UPDATE",
                f"Unable to create/update fields: {found.name}. Please check the security settings "
                "of this field and "
                "verify that it is read/write for your profile or permission set.",
                (found.name,),
            )
        plain[found.name] = field_values.read(value, found)
    return plain


def apply(
    edit: RecordEdit,
    sobject: SObject,
    before: Record | None,
    at: int,
    *,
    hashed: text_diffs.Hashed = "own",
) -> tuple[Record, ChangeDraft]:
    """Apply an edit: return the new record and the draft of its change event.

    :param before: current record; None for a creation.
    :param at: commit time, in milliseconds since the epoch.
    :raises RecordRefusedError: the record does not exist, is deleted (for an undelete: is not), or
        lacks required fields.
    """
    fields: Mapping[str, Any] = {}
    diffs: tuple[str, ...] = ()
    if edit.kind == "CREATE":
        after = _created(edit, sobject, at)
        fields = body(sobject, after)
    elif edit.kind == "UPDATE":
        alive = _alive(edit, before)
        after = _updated(edit, sobject, alive, at)
        fields, diffs = _changes(sobject, alive, after, hashed)
    elif edit.kind == "DELETE":
        after = replace(_alive(edit, before), deleted_at=at)
    else:
        after = _undeleted(edit, before, at)
        fields = body(sobject, after)
    return after, ChangeDraft(
        change_type=f"GAP_{edit.kind}" if edit.gap else edit.kind,
        entity=edit.entity,
        record_id=edit.record_id,
        user_id=edit.user_id,
        record=after,
        before=before,
        fields={} if edit.gap else fields,
        diffs=() if edit.gap else diffs,
    )


def body(sobject: SObject, record: Record) -> dict[str, Any]:
    """Body of a change event with every field that has a value."""
    fields: dict[str, Any] = {}
    for one in sobject.fields.values():
        value = record.values.get(one.name)
        if value is not None and one.event:
            _put(fields, one, value)
    return fields


def _put(fields: dict[str, Any], one: Field, value: Any) -> None:
    """Add a field's value to a body.

    A person's name exists as text and as a record; then the members win.
    """
    if not one.member:
        fields[one.event] = value
        return
    inside = fields.get(one.event)
    if not isinstance(inside, dict):
        fields[one.event] = inside = {}
    inside[one.member] = value


def _created(edit: RecordEdit, sobject: SObject, at: int) -> Record:
    lacking = [
        one.name
        for one in sobject.fields.values()
        if one.required and edit.given.get(one.name) is None and not _is_person(edit.given, one)
    ]
    if lacking:
        raise _missing(lacking)
    # A checkbox always has a value.
    unticked = {
        one.name: False
        for one in sobject.fields.values()
        if one.event and avro_type(one.kind) == "boolean"
    }
    owner = {"OwnerId": edit.user_id} if "OwnerId" in sobject.fields else {}
    made = {"CreatedDate": at, "CreatedById": edit.user_id}
    held = {**unticked, **owner, **_valued(edit.given), **made, **_modified(edit, at)}
    return Record(id=edit.record_id, entity=edit.entity, values=held)


def _updated(edit: RecordEdit, sobject: SObject, before: Record, at: int) -> Record:
    emptied = [
        name
        for name, value in edit.given.items()
        if value is None and sobject.fields[name].required
    ]
    if emptied:
        raise _missing(emptied)
    given = {
        name: False
        if value is None and avro_type(sobject.fields[name].kind) == "boolean"
        else value
        for name, value in edit.given.items()
    }
    held = {**before.values, **given, **_modified(edit, at)}
    return replace(before, values=_valued(held))


def _undeleted(edit: RecordEdit, before: Record | None, at: int) -> Record:
    if before is None:
        raise not_found(f"record {edit.record_id}")
    if before.deleted_at is None:
        about = f"record {edit.record_id}"
        raise RecordRefusedError(
            "UNDELETE_FAILED", "Entity is not in the recycle bin", (), about=about
        )
    return replace(before, deleted_at=None, values={**before.values, **_modified(edit, at)})


def _alive(edit: RecordEdit, before: Record | None) -> Record:
    if before is None:
        raise not_found(f"record {edit.record_id}")
    if before.deleted_at is not None:
        about = f"record {edit.record_id}"
        raise RecordRefusedError("ENTITY_IS_DELETED", "entity is deleted", (), about=about)
    return before


def _changes(
    sobject: SObject, before: Record, after: Record, hashed: text_diffs.Hashed
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Body of an update, and the names of fields that are sent as a diff."""
    fields: dict[str, Any] = {}
    diffs: list[str] = []
    for one in sobject.fields.values():
        old, new = before.values.get(one.name), after.values.get(one.name)
        if not one.event or (old == new and one.name != "LastModifiedDate"):
            continue
        patch = _patch(one, old, new, hashed)
        if patch is not None:
            diffs.append(one.path)
        _put(fields, one, new if patch is None else patch)
    return fields, tuple(diffs)


def _patch(one: Field, old: Any, new: Any, hashed: text_diffs.Hashed) -> str | None:
    if one.member or one.kind not in text_diffs.KINDS or old is None or new is None:
        return None
    return text_diffs.diff(old, new, hashed=hashed)


def _is_person(given: Mapping[str, Any], one: Field) -> bool:
    """True if the field is the name of a person account, which requires the last name instead."""
    return one.name == "Name" and given.get("LastName") is not None


def _modified(edit: RecordEdit, at: int) -> dict[str, Any]:
    return {"LastModifiedDate": at, "LastModifiedById": edit.user_id}


def _valued(held: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in held.items() if value is not None}


def _missing(names: list[str]) -> RecordRefusedError:
    return RecordRefusedError(
        "REQUIRED_FIELD_MISSING", f"Required fields are missing: [{', '.join(names)}]", tuple(names)
    )
