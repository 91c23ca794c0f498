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


def test_changed_fields_can_be_given() -> None:
    """Changed fields and diffs can be given, as live updates have them."""
    header = _record(
        "UPDATE", {"Description": "--- \n"}, diff_fields=("Description",), changed_fields=("Name",)
    )["ChangeEventHeader"]
    assert (header["changedFields"], header["diffFields"]) == (["0x02"], ["0x010000"])


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
