"""Several changes in one transaction, on the channel of all selected objects.

On a real org two records are created and deleted: up to six deliveries.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from tests.contract.changing import ALL, Change, watched

if TYPE_CHECKING:
    from tests.contract.orgs import OrgUnderTest

COMPOSITE = "composite/sobjects"


@pytest.fixture(scope="module")
def changes(org: OrgUnderTest) -> list[Change]:
    """Two records created with different values, changed alike, and deleted; three transactions."""
    entity = org.need("entity")

    def several(*records: dict[str, str]) -> dict[str, Any]:
        return {
            "allOrNone": True,
            "records": [{"attributes": {"type": entity}, **one} for one in records],
        }

    with watched(org, ALL) as watch:
        names = [{"Name": str(uuid.uuid4())} for _ in range(2)]
        made = org.rest("POST", COMPOSITE, several(*names))
        ids = [one["id"] for one in made.json()]
        changed = [{"id": one, "Phone": "555 0100"} for one in ids]
        assert org.rest("PATCH", COMPOSITE, several(*changed)).status_code == 200
        path = f"{COMPOSITE}?ids={','.join(ids)}&allOrNone=true"
        assert org.rest("DELETE", path).status_code == 200
        found = watch.until("CREATE", "UPDATE", "DELETE", of=2)
    return [one for one in found if set(one.what[1]) & set(ids)]


def _of(changes: list[Change], kind: str) -> list[Change]:
    return [one for one in changes if one.what[0] == kind]


def test_the_channel_of_all_carries_each_object(org: OrgUnderTest, changes: list[Change]) -> None:
    """`/data/ChangeEvents` carries every selected object, with its own schema.

    Source: Change Data Capture guide.
    """
    assert {one.schema["name"] for one in changes} == {f"{org.entity}ChangeEvent"}


@pytest.mark.parametrize("kind", ["CREATE", "UPDATE", "DELETE"])
def test_a_transaction_has_one_key_and_counts_its_changes(changes: list[Change], kind: str) -> None:
    """A transaction has one key and time, and numbers from 1.

    Source: Change Event Header Fields page.
    """
    headers = [one.header for one in _of(changes, kind)]
    assert len({one["transactionKey"] for one in headers}) == 1
    assert len({one["commitTimestamp"] for one in headers}) == 1
    numbers = [one["sequenceNumber"] for one in headers]
    assert numbers == sorted(set(numbers))
    assert numbers[0] == 1


def test_what_differs_has_events_of_its_own(changes: list[Change]) -> None:
    """Two new records with different values are two events.

    Source: Change Event Header Fields page.
    """
    created = _of(changes, "CREATE")
    assert [len(one.what[1]) for one in created] == [1, 1]
    assert len({one.record["Name"] for one in created}) == 2


@pytest.mark.parametrize("kind", ["UPDATE", "DELETE"])
def test_the_same_change_of_several_records_may_be_one_event(
    changes: list[Change], kind: str
) -> None:
    """Equal changes may share an event, with each record id once.

    Source: Change Event Header Fields page, live logs.
    """
    records = [record for one in _of(changes, kind) for record in one.what[1]]
    created = [one.what[1][0] for one in _of(changes, "CREATE")]
    assert sorted(records) == sorted(created)


def test_several_records_of_one_event(org: OrgUnderTest, changes: list[Change]) -> None:
    """Equal changes of two records are one event. Source: live logs of mass deletions."""
    org.staged("whether records share an event is the service's own affair")
    assert [len(one.what[1]) for one in _of(changes, "DELETE")] == [2]
    assert [len(one.what[1]) for one in _of(changes, "UPDATE")] == [2]
