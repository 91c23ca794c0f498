"""Change events have the content that the guide describes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from airflow_provider_sfevents.emulator.bus import avro_schemas
from airflow_provider_sfevents.emulator.bus.avro_types import FieldTypes
from airflow_provider_sfevents.emulator.bus.change_events import ChangeMessage, to_record
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.org.sample_org import ACCOUNT

SCHEMA = avro_schemas.change_event_schema("Account", ACCOUNT, FieldTypes(), snapshot=True)
AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)
AT_SECOND = 1767323045000


def _record(change_type: str, fields: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    change = ChangeMessage(
        entity="Account",
        change_type=change_type,
        record_ids=("001000000000001AAA",),
        user_id="005000000000001AAA",
        committed_at=AT,
        fields=fields or {},
        **more,
    )
    return to_record(change, SCHEMA)


def test_update_names_what_changed() -> None:
    """An update has bitmaps of its fields with LastModifiedDate, and of the fields set to null."""
    record = _record(
        "UPDATE",
        {"Industry": "Retail", "Rating": None, "BillingAddress": {"Street": None, "City": "Porto"}},
    )
    header = record.pop("ChangeEventHeader")
    assert record == {
        "LastModifiedDate": AT_SECOND,
        "Industry": "Retail",
        "Rating": None,
        "BillingAddress": {"Street": None, "City": "Porto"},
    }
    assert header["changedFields"] == ["0x420800", "4-0x03"]
    assert header["nulledFields"] == ["0x020000", "4-0x01"]
    assert header["diffFields"] == []


def test_changed_fields_can_be_given() -> None:
    """Changed fields and diffs can be given, as live updates have them."""
    header = _record(
        "UPDATE", {"Description": "--- \n"}, diff_fields=("Description",), changed_fields=("Name",)
    )["ChangeEventHeader"]
    assert (header["changedFields"], header["diffFields"]) == (["0x02"], ["0x010000"])


def test_create_is_stamped_and_has_no_bitmaps() -> None:
    """A creation has the system fields and no bitmaps."""
    record = _record("CREATE", {"Name": "Nordwind"})
    header = record.pop("ChangeEventHeader")
    assert record == {
        "Name": "Nordwind",
        "CreatedDate": AT_SECOND,
        "LastModifiedDate": AT_SECOND,
        "CreatedById": "005000000000001AAA",
        "LastModifiedById": "005000000000001AAA",
    }
    assert header["changedFields"] == header["nulledFields"] == header["diffFields"] == []


def test_header() -> None:
    """A header has whole seconds, a commit number beyond a double, and the given transaction."""
    header = _record("DELETE", transaction_key="t-1", sequence_number=3)["ChangeEventHeader"]
    assert header["entityName"] == "Account"
    assert header["recordIds"] == ["001000000000001AAA"]
    assert header["commitTimestamp"] == AT_SECOND
    assert int(float(header["commitNumber"])) != header["commitNumber"] > 2**53
    assert (header["transactionKey"], header["sequenceNumber"]) == ("t-1", 3)


@pytest.mark.parametrize("change_type", ["DELETE", "GAP_UPDATE", "GAP_OVERFLOW"])
def test_these_carry_no_fields(change_type: str) -> None:
    """A delete or a gap event has an empty body; given fields are refused."""
    assert list(_record(change_type)) == ["ChangeEventHeader"]
    with pytest.raises(EmulatorError, match=f"{change_type} carries no fields"):
        _record(change_type, {"Name": "x"})


def test_unknown_change_type_and_field_are_named() -> None:
    """An unknown change type or field is named in the error."""
    with pytest.raises(EmulatorError, match="'UPSERT' is not one of CREATE"):
        _record("UPSERT")
    with pytest.raises(EmulatorError, match="'Nope'"):
        _record("UPDATE", {"Nope": 1})
