"""Edits change a record and determine its change event."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.emulator.org.objects import field_values
from airflow_provider_sfevents.emulator.org.objects.object_definitions import Field, SObject
from airflow_provider_sfevents.emulator.org.objects.object_evolution import define
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError
from airflow_provider_sfevents.emulator.org.records.record_edits import (
    ChangeDraft,
    Kind,
    Record,
    RecordEdit,
    apply,
    read_given,
)

USER, OTHER = "005gL000000000AQAQ", "005gL000000000BQAQ"
ACCOUNT = define("Account", {}, required=(), tracked=True, known=(), knobs=Knobs())
CONTACT = define("Contact", {}, required=(), tracked=True, known=(), knobs=Knobs())


def _edit(
    kind: Kind,
    given: dict[str, Any] | None = None,
    before: Record | None = None,
    at: int = 1000,
    *,
    sobject: SObject = ACCOUNT,
    user: str = USER,
    gap: bool = False,
) -> tuple[Record, ChangeDraft]:
    edit = RecordEdit(
        kind=kind,
        entity=sobject.name,
        record_id="001gL0000004C93QAE",
        user_id=user,
        given=read_given(sobject, given or {}),
        gap=gap,
    )
    return apply(edit, sobject, before, at)


def _made(given: dict[str, Any] | None = None, sobject: SObject = ACCOUNT) -> Record:
    return _edit("CREATE", {"Name": "Nord"} if given is None else given, sobject=sobject)[0]


@pytest.mark.parametrize("kind", ["CREATE", "UPDATE", "DELETE"])
def test_a_gap_changes_the_record_and_says_nothing(kind: Kind) -> None:
    """A gap event has no fields, and the record is still changed."""
    before = None if kind == "CREATE" else _made()
    given = {} if kind == "DELETE" else {"Name": "New"}
    after, draft = _edit(kind, given, before, 2000, gap=True)
    assert (draft.change_type, draft.fields, draft.diffs) == (f"GAP_{kind}", {}, ())
    assert after.get("IsDeleted") is (kind == "DELETE")
    assert after.get("Name") == ("Nord" if kind == "DELETE" else "New")


@pytest.mark.parametrize(
    ("kind", "given", "deleted", "code"),
    [
        ("CREATE", {}, None, "REQUIRED_FIELD_MISSING"),
        ("UPDATE", {"Name": None}, False, "REQUIRED_FIELD_MISSING"),
        ("UPDATE", {"Phone": "1"}, None, "NOT_FOUND"),
        ("UPDATE", {"Phone": "1"}, True, "ENTITY_IS_DELETED"),
        ("DELETE", {}, True, "ENTITY_IS_DELETED"),
        ("UNDELETE", {}, False, "UNDELETE_FAILED"),
        ("UNDELETE", {}, None, "NOT_FOUND"),
        ("UPDATE", {"Nope": 1}, False, "INVALID_FIELD"),
        ("UPDATE", {"CreatedDate": 1}, False, "INVALID_FIELD_FOR_INSERT_UPDATE"),
        ("UPDATE", {"BillingAddress": "Porto"}, False, "INVALID_FIELD_FOR_INSERT_UPDATE"),
        ("UPDATE", {"ParentId": "abc"}, False, "MALFORMED_ID"),
        ("UPDATE", {"NumberOfEmployees": "many"}, False, "JSON_PARSER_ERROR"),
        ("UPDATE", {"NumberOfEmployees": 3_000_000_000}, False, "JSON_PARSER_ERROR"),
        ("UPDATE", {"Phone": 5}, False, "JSON_PARSER_ERROR"),
        ("UPDATE", {"AnnualRevenue": True}, False, "JSON_PARSER_ERROR"),
    ],
)
def test_what_salesforce_refuses_is_refused(
    kind: Kind, given: dict[str, Any], deleted: bool | None, code: str
) -> None:
    """A refusal has Salesforce's error code, and names the record for the user."""
    before = None if deleted is None else _made()
    if deleted:
        before = _edit("DELETE", None, before)[0]
    with pytest.raises(RecordRefusedError) as refused:
        _edit(kind, given, before)
    assert refused.value.code == code


def test_a_persons_name_is_changed_member_by_member() -> None:
    """First and last name are separate fields; the event has them inside the name."""
    before = _made({"FirstName": "Bruno", "LastName": "Silva"}, CONTACT)
    _, draft = _edit("UPDATE", {"FirstName": None}, before, 2000, sobject=CONTACT)
    assert draft.fields == {"Name": {"FirstName": None}, "LastModifiedDate": 2000}


def test_a_checkbox_always_has_a_value() -> None:
    """A checkbox is false by default, also if null is written."""
    record = _made({"LastName": "Silva"}, CONTACT)
    assert record.get("HasOptedOutOfEmail") is False
    ticked, _ = _edit("UPDATE", {"HasOptedOutOfEmail": "true"}, record, sobject=CONTACT)
    back, draft = _edit("UPDATE", {"HasOptedOutOfEmail": None}, ticked, 2000, sobject=CONTACT)
    assert back.get("HasOptedOutOfEmail") is False
    assert draft.fields["HasOptedOutOfEmail"] is False


@pytest.mark.parametrize(
    ("kind", "given", "held", "json", "csv"),
    [
        ("Text", "Porto", "Porto", "Porto", "Porto"),
        ("Double", "12.50", 12.5, 12.5, "12.5"),
        ("Currency", Decimal("9.99"), 9.99, 9.99, "9.99"),
        ("Double", 3, 3.0, 3.0, "3.0"),
        ("Integer", 7, 7, 7, "7"),
        ("Boolean", True, True, True, "true"),
        (
            "DateTime",
            "2026-01-05T12:30:00.250+0100",
            1767612600250,
            "2026-01-05T11:30:00.250+0000",
            "2026-01-05T11:30:00.250Z",
        ),
        (
            "DateTime",
            datetime(2026, 1, 5, 11, 30, tzinfo=UTC),
            1767612600000,
            "2026-01-05T11:30:00.000+0000",
            "2026-01-05T11:30:00.000Z",
        ),
        ("DateOnly", "2026-01-05", 1767571200000, "2026-01-05", "2026-01-05"),
        ("Birthday", date(1969, 12, 31), -86400000, "1969-12-31", "1969-12-31"),
        ("TimeOnly", "08:15:00.000Z", 29700000, "08:15:00.000Z", "08:15:00.000Z"),
        ("TimeOnly", time(8, 15), 29700000, "08:15:00.000Z", "08:15:00.000Z"),
        ("Lookup", "001gL0000004C93", "001gL0000004C93QAE", *["001gL0000004C93QAE"] * 2),
        ("Text", "", None, None, ""),
    ],
)
def test_values_are_read_and_shown(kind: str, given: Any, held: Any, json: Any, csv: str) -> None:
    """Values are converted for records, for REST and for bulk results."""
    assert field_values.read(given, Field(name="F", kind=kind)) == held
    assert (field_values.as_json(held, kind), field_values.as_csv(held, kind)) == (json, csv)
