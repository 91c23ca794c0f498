"""Change events of special kinds: gaps, overflow, wildcards, undeletion, person accounts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.contract.changing import ALL, BITMAPS, Change, decoded

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

TOPIC = "/data/AccountChangeEvent"
NOT_ON_DEMAND = "the service sends gap events when it cannot send others, never on demand"
NO_RECORD = "000000000000000AAA"


class Gaps(NamedTuple):
    """A record whose changes were gaps, and its events."""

    record_id: str
    changes: list[Change]


@pytest.fixture(scope="module")
def gaps(org: OrgUnderTest) -> Gaps:
    """A record's creation, update, deletion and undeletion as gaps, then a too large event."""
    emulator = org.staged(NOT_ON_DEMAND)
    base = org.base()
    record = emulator.create("Account", {"Name": "Gap"}, gap=True)
    emulator.update(record, {"Phone": "555 0100"}, gap=True)
    emulator.delete(record, gap=True)
    emulator.undelete(record, gap=True)
    emulator.update(record, {"Description": "x" * 1_100_000})
    return Gaps(record, _told(org, base, 5))


def _told(org: OrgUnderTest, base: bytes, count: int, topic: str = TOPIC) -> list[Change]:
    with org.after(base, count, topic=topic) as stream:
        return [decoded(org, one) for one in stream.take(count)]


def test_each_change_has_its_gap(gaps: Gaps) -> None:
    """A gap event has GAP_ and the change type, with the record's id.

    Source: Change Data Capture guide (gap events).
    """
    kinds = ("GAP_CREATE", "GAP_UPDATE", "GAP_DELETE", "GAP_UNDELETE")
    assert [one.what for one in gaps.changes[:4]] == [(kind, (gaps.record_id,)) for kind in kinds]


def test_a_change_too_large_for_an_event_is_a_gap(gaps: Gaps) -> None:
    """A change above 1 MB is a gap event.

    Source: Change Data Capture guide (gap events), Allocations page.
    """
    assert gaps.changes[4].what == ("GAP_UPDATE", (gaps.record_id,))


def test_a_gap_says_no_more(gaps: Gaps) -> None:
    """All fields of a gap event are null and its bitmaps are empty.

    Source: Change Data Capture guide (gap events).
    """
    for change in gaps.changes:
        assert change.values == {}
        assert [change.header[name] for name in BITMAPS] == [[], [], []]


def test_a_gap_has_the_rest_of_the_header(gaps: Gaps) -> None:
    """A gap event has time, user and transaction, to compare with the record.

    Source: Change Data Capture guide.
    """
    for change in gaps.changes:
        header = change.header
        assert header["commitTimestamp"] > 1_600_000_000_000
        assert header["entityName"] == "Account"
        assert header["commitUser"][:3] == "005"
        assert header["transactionKey"]


def test_too_many_changes_of_a_transaction_overflow(org: OrgUnderTest) -> None:
    """Changes beyond 100,000 are one event per object, without a record.

    Source: Change Data Capture guide.
    """
    with org.set_up(
        "100,000 records would have to change", overflow_changes=2, records_per_event=1
    ) as other:
        assert other.emulator
        base = other.base()
        other.emulator.define_object("Contact")
        with other.emulator.transaction() as changes:
            made = [changes.create("Account", {"Name": f"A{number}"}) for number in range(4)]
            changes.create("Contact", {"LastName": "Silva"})
        told = _told(other, base, 4, ALL)
    assert [(one.header["entityName"], *one.what) for one in told] == [
        ("Account", "CREATE", (made[0],)),
        ("Account", "CREATE", (made[1],)),
        ("Account", "GAP_OVERFLOW", (NO_RECORD,)),
        ("Contact", "GAP_OVERFLOW", (NO_RECORD,)),
    ]
    assert len({one.header["transactionKey"] for one in told}) == 1
    assert [one.header["sequenceNumber"] for one in told] == [1, 2, 3, 4]
    assert told[2].values == {}


def test_all_records_at_once_are_a_wildcard(org: OrgUnderTest) -> None:
    """A field conversion with data loss is one event of `a00*`.

    Source: Change Data Capture guide (change event header).
    """
    emulator = org.staged("a field would lose its data")
    topic = emulator.define_object("Converted__c", {"Grade__c": "Text"})
    base = org.base()
    record = emulator.create("Converted__c", {"Name": "Ada", "Grade__c": "7"})
    emulator.convert_field("Converted__c", "Grade__c", "Number")
    _, converted = _told(org, base, 2, topic)
    assert converted.what == ("UPDATE", (f"{record[:3]}*",))
    assert converted.named("nulledFields") == {"Grade__c"}


def test_an_undeleted_record_comes_whole(org: OrgUnderTest) -> None:
    """An undeletion has all fields, like a creation, and no bitmaps.

    Source: Change Data Capture guide.
    """
    emulator = org.staged("REST has no undelete")
    base = org.base()
    record = emulator.create("Account", {"Name": "Back", "BillingCity": "Porto"})
    emulator.delete(record)
    emulator.undelete(record)
    *_, back = _told(org, base, 3)
    assert back.what == ("UNDELETE", (record,))
    assert (back.record["Name"], back.record["BillingAddress"]["City"]) == ("Back", "Porto")
    assert back.header["changedFields"] == []


def test_a_person_is_an_account_and_a_contact(org: OrgUnderTest) -> None:
    """Account and contact each have an event, and the account's name is a record.

    Source: Change Data Capture guide.
    """
    with org.set_up("it would need person accounts", person_accounts=True) as other:
        assert other.emulator
        other.emulator.define_object("Contact")
        base = other.base()
        other.emulator.create("Account", {"FirstName": "Ada", "LastName": "Silva"})
        other.emulator.create("Account", {"Name": "Nord"})
        account, contact, company = _told(other, base, 3, ALL)
    assert [one.header["entityName"] for one in (account, contact)] == ["Account", "Contact"]
    assert account.record["Name"]["LastName"] == contact.record["Name"]["LastName"] == "Silva"
    assert company.record["Name"] == "Nord"
    [name] = [one["type"] for one in account.schema["fields"] if one["name"] == "Name"]
    assert (name[:2], name[2]["name"]) == (["null", "string"], "Switchable_PersonName")
