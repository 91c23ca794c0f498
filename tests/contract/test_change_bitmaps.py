"""Bitmaps of compounds, and diffs of long texts.

On a real org one record is created, changed twice and deleted.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.contract.changing import Change, decoded, members, watched

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.orgs import OrgUnderTest

LINES = [
    f"Line {number} of a story that is long enough to be sent in parts." for number in range(40)
]
AFTER = [*LINES[:7], "And then it rained.", *LINES[8:]]
TOPIC = "/data/ContactChangeEvent"


class Story(NamedTuple):
    """Events of a record whose address changed, and then one line of its long text."""

    created: Change
    moved: Change
    rewritten: Change


@pytest.fixture(scope="module")
def story(org: OrgUnderTest) -> Story:
    """Four deliveries."""
    entity = org.need("entity")
    topic = f"/data/{entity}ChangeEvent"
    fields = {"BillingAddress", "Description"}
    told = org.rest("GET", f"sobjects/{entity}/describe").json()["fields"]
    if missing := fields - {one["name"] for one in told}:
        pytest.skip(f"{entity} has no {' and no '.join(sorted(missing))}")
    values = {"Name": f"Contract {uuid.uuid4()}", "BillingCity": "Porto"}
    with watched(org, topic) as watch:
        made = org.rest("POST", f"sobjects/{entity}", {**values, "Description": "\n".join(LINES)})
        path = f"sobjects/{entity}/{made.json()['id']}"
        for body in (
            {"BillingStreet": "Rua 5", "BillingCity": None},
            {"Description": "\n".join(AFTER)},
        ):
            assert org.rest("PATCH", path, body).status_code == 204
        assert org.rest("DELETE", path).status_code == 204
        created, moved, rewritten, _ = watch.until("DELETE")
    return Story(created, moved, rewritten)


def test_a_new_compound_comes_whole(story: Story) -> None:
    """A new compound is a record of all its members, null without a value.

    Source: Event Deserialization Considerations page.
    """
    address = story.created.record["BillingAddress"]
    assert (address["City"], address["Street"]) == ("Porto", None)


def test_members_of_a_compound_have_a_bitmap_of_their_own(story: Story) -> None:
    """`n-0x...` is the bitmap of the compound at position n, whose own bit is not set.

    Source: Event Deserialization Considerations page.
    """
    changed = story.moved.header["changedFields"]
    names = [field["name"] for field in story.moved.schema["fields"]]
    [child] = [one for one in changed if "-" in one]
    assert re.fullmatch(rf"{names.index('BillingAddress')}-0x([0-9A-F]{{2}})+", child)
    assert {"BillingAddress.Street", "BillingAddress.City"} <= story.moved.named("changedFields")
    assert "BillingAddress" not in story.moved.named("changedFields")


def test_the_bitmap_of_the_fields_comes_before_those_of_members(story: Story) -> None:
    """The fields' bitmap is first, because Salesforce's Node client requires it.

    Source: That client, examples of the guide.
    """
    first, *rest = story.moved.header["changedFields"]
    assert first.startswith("0x")
    assert all("-0x" in one for one in rest)


def test_a_member_set_to_null_is_named(story: Story) -> None:
    """A member set to null is in the compound's bitmap of `nulledFields`.

    Source: Event Deserialization Considerations page.
    """
    assert "BillingAddress.City" in story.moved.named("nulledFields")
    assert "BillingAddress.Street" not in story.moved.named("nulledFields")
    assert story.moved.record["BillingAddress"]["Street"] == "Rua 5"
    assert story.moved.record["BillingAddress"]["City"] is None


def test_members_that_did_not_change_are_null(story: Story) -> None:
    """Unchanged members are null, like unchanged fields. Source: Change Data Capture guide."""
    assert story.moved.record["BillingAddress"]["Country"] is None
    assert story.moved.record["Name"] is None


def test_a_long_text_can_be_made_of_what_came(story: Story) -> None:
    """A long text is whole, or a unified diff with the hash of its result.

    Source: CDC guide, v67.
    """
    came = story.rewritten.record["Description"]
    assert "Description" in story.rewritten.named("changedFields")
    if "Description" in story.rewritten.named("diffFields"):
        came = _patched(story.created.record["Description"], came)
    assert came.splitlines() == AFTER


def test_a_long_text_comes_as_what_differs(org: OrgUnderTest, story: Story) -> None:
    """A diff of one line in forty has `--- `, `+++ ` with the hash, then hunks.

    Source: Change Data Capture guide, v67.
    """
    org.staged("it may send the text whole too")
    assert story.rewritten.named("diffFields") == {"Description"}
    old, new, hunk, *_ = story.rewritten.record["Description"].splitlines()
    assert old == "--- "
    assert re.fullmatch(r"\+\+\+ [0-9a-f]{64}", new)
    assert re.fullmatch(r"@@ -\d+(,\d+)? \+\d+(,\d+)? @@", hunk)


def _patched(before: str, diff: str) -> str:
    """Apply a unified diff to a text, and check its hash."""
    lines, result, at = before.splitlines(), [], 0
    _, new, *body = diff.splitlines()
    for one in body:
        if hunk := re.match(r"@@ -(\d+)", one):
            upto = int(hunk[1]) - 1
            result += lines[at:upto]
            at = upto
        elif one.startswith("+"):
            result.append(one[1:])
        else:
            result += [] if one.startswith("-") else [lines[at]]
            at += 1
    made = "\n".join([*result, *lines[at:]])
    hashes = {
        hashlib.sha256(text.encode()).hexdigest() for text in (made, made.replace("\n", "\r\n"))
    }
    assert new.removeprefix("+++ ") in hashes
    return made


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text[:900], "short"),
        (lambda text: text[: len(text) // 3], "much shorter"),
        (lambda text: text.replace("Line 1", "Zeile 1"), "many lines"),
    ],
    ids=["below 1,000 characters", "length halved", "a quarter of the lines"],
)
def test_a_text_that_changed_much_comes_whole(
    org: OrgUnderTest, change: Callable[[str], str], why: str
) -> None:
    """A mostly changed text is sent whole. Source: Change Data Capture guide, v67."""
    emulator = org.staged("it may send any text whole")
    base, before = org.base(), "\n".join(LINES)
    record = emulator.create("Account", {"Name": why, "Description": before})
    emulator.update(record, {"Description": change(before)})
    with org.after(base, 2, topic="/data/AccountChangeEvent") as stream:
        _, updated = (decoded(org, one) for one in stream.take(2))
    assert updated.header["diffFields"] == []
    assert updated.record["Description"].splitlines() == change(before).splitlines()


def test_a_persons_name_is_a_compound(org: OrgUnderTest) -> None:
    """A contact's `Name` is a record, and a changed member has a bit in it.

    Source: Event Deserialization Considerations page.
    """
    emulator = org.staged("changes of contacts would have to be captured too")
    emulator.define_object("Contact")
    base = org.base()
    ada = emulator.create("Contact", {"FirstName": "Ada", "LastName": "Silva"})
    emulator.update(ada, {"FirstName": "Adela"})
    with org.after(base, 2, topic=TOPIC) as stream:
        created, updated = (decoded(org, one) for one in stream.take(2))
    assert created.record["Name"]["LastName"] == "Silva"
    assert updated.named("changedFields") == {"LastModifiedDate", "Name.FirstName"}
    assert updated.record["Name"]["FirstName"] == "Adela"
    names = [field["name"] for field in updated.schema["fields"]]
    assert members(updated.schema, names.index("Name"))[:3] == [
        "Salutation",
        "FirstName",
        "LastName",
    ]
