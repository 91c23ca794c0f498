"""Changes of records, read back by the package's own client."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.change_bitmaps import field_names
from airflow_provider_sfevents.emulator import Emulator, EmulatorClock, Knobs
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.pubsub.bounds import Bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow_provider_sfevents.hooks.memory_batch import Event

    Told = Callable[..., list["Change"]]

ALL = "/data/ChangeEvents"
NOON = datetime(2026, 1, 5, 12, 0, 0, 700_000, tzinfo=UTC)
BITMAPS = ("changedFields", "nulledFields", "diffFields")


class Change:
    """A change event as the client decodes it: header, names of its bitmaps, and values."""

    def __init__(self, event: Event) -> None:
        record = event.decode()
        self.id = event.id
        self.header: dict[str, Any] = record.pop("ChangeEventHeader")
        layout = tuple(_layout(json.loads(event.schema)))
        self.changed, self.nulled, self.diffs = (
            field_names(self.header[name], layout) for name in BITMAPS
        )
        self.values = {name: value for name, value in record.items() if value is not None}

    @property
    def what(self) -> tuple[str, str, tuple[str, ...]]:
        header = self.header
        return header["entityName"], header["changeType"], tuple(header["recordIds"])


def _layout(schema: dict[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    known: dict[str, tuple[str, ...]] = {}
    for field in schema["fields"]:
        members: tuple[str, ...] = ()
        for branch in field["type"] if isinstance(field["type"], list) else []:
            if isinstance(branch, dict):
                known[branch["name"]] = tuple(member["name"] for member in branch["fields"])
                members = known[branch["name"]]
            else:
                members = known.get(branch, members)
        yield field["name"], members


@pytest.fixture
def bus(request: pytest.FixtureRequest) -> Iterator[Emulator]:
    """An org at noon; a test may set knobs as the fixture's parameter."""
    over: dict[str, Any] = getattr(request, "param", {})
    with Emulator(clock=EmulatorClock(NOON), knobs=Knobs(half_close_seconds=0.01, **over)) as bus:
        yield bus
        bus.check()


@pytest.fixture
def told(bus: Emulator, monkeypatch: pytest.MonkeyPatch) -> Told:
    """Fetch the events of a topic with the package's hook."""

    def fetch(topic: str = ALL) -> list[Change]:
        monkeypatch.setenv("AIRFLOW_CONN_SF_ORG", bus.connection_json("session"))
        count = len(bus.events(topic))
        batch = SfEventsHook("sf_org").fetch(topic, bounds=Bounds(max_events=count))
        return [Change(event) for event in batch.events]

    return fetch


def test_a_transaction_that_fails_leaves_nothing(bus: Emulator) -> None:
    """A failed transaction leaves neither a record nor an event."""
    account = bus.create("Account", {"Name": "Nord"})

    def half() -> None:
        with bus.transaction() as changes:
            changes.delete(account)
            changes.create("Account", {})

    with pytest.raises(EmulatorError, match="REQUIRED_FIELD_MISSING"):
        half()
    assert [one["Name"] for one in bus.records("Account")] == ["Nord"]
    assert len(bus.events(ALL)) == 1


def test_gaps_say_that_and_not_what(bus: Emulator, told: Told) -> None:
    """A gap changes the record; a too large event becomes one; a gap can be published alone."""
    account = bus.create("Account", {"Name": "Nord"})
    bus.update(account, {"Phone": "1"}, gap=True)
    bus.update(account, {"Description": "x" * 1_100_000})
    bus.gap("Account", "GAP_DELETE", account)
    bus.gap("Account", "GAP_OVERFLOW")
    assert [one.what[1:] for one in told()[1:]] == [
        ("GAP_UPDATE", (account,)),
        ("GAP_UPDATE", (account,)),
        ("GAP_DELETE", (account,)),
        ("GAP_OVERFLOW", ("000000000000000AAA",)),
    ]
    assert all(one.values == {} and one.changed == [] for one in told()[1:])
    record = bus.record(account)
    assert record
    assert (record["Phone"], len(record["Description"])) == ("1", 1_100_000)


def test_a_conversion_names_all_records_at_once(bus: Emulator, told: Told) -> None:
    """A conversion nulls the field by a wildcard under the new schema, or as a gap."""
    topic = bus.define_object("Employee__c", {"Grade__c": "Text", "Level__c": "Text"})
    one = bus.create("Employee__c", {"Name": "Ada", "Grade__c": "7", "Level__c": "x"})
    before = bus.schema_id("Employee__c")
    bus.convert_field("Employee__c", "Grade__c", "Number")
    bus.convert_field("Employee__c", "Level__c", "Number", gap=True)
    _, nulled, gap = told(topic)
    assert nulled.what == ("Employee__c", "UPDATE", ("a00*",))
    assert (nulled.changed, nulled.nulled, nulled.values) == (["Grade__c"], ["Grade__c"], {})
    assert (gap.what[1:], gap.changed) == (("GAP_UPDATE", ("a00*",)), [])
    assert bus.schema_id("Employee__c") != before
    record = bus.record(one)
    assert record
    assert (record["Grade__c"], record["Level__c"]) == (None, None)
    bus.update(one, {"Grade__c": 7})
    assert told(topic)[-1].values["Grade__c"] == 7.0


def test_an_object_evolves_with_its_records(bus: Emulator, told: Told) -> None:
    """New fields are last, removed ones lose their values, old events keep their schema."""
    topic = bus.define_object("Employee__c", {"A__c": "Text", "B__c": "Text"})
    one = bus.create("Employee__c", {"A__c": "a", "B__c": "b"})
    bus.evolve("Employee__c", {"C__c": "Date"}, remove=["A__c"])
    bus.update(one, {"C__c": "2026-01-05"})
    bus.evolve("Employee__c", {"A__c": "Double"})
    record = bus.record(one, shape="event")
    assert record
    assert [(name, record[name]) for name in record if name.endswith("__c")] == [
        ("B__c", "b"),
        ("C__c", "2026-01-05"),
        ("A__c", None),
    ]
    assert told(topic)[0].values["A__c"] == "a"
    assert told(topic)[1].changed == ["LastModifiedDate", "C__c"]


def test_a_channel_carries_what_it_is_enriched_with(bus: Emulator, told: Told) -> None:
    """Only the enriched channel has the fields, and not as changed ones."""
    bus.define_object("Account")
    bus.define_channel("/data/Sales__chn", ["Account"])
    bus.enrich("/data/Sales__chn", {"Account": ["Name", "BillingAddress"]})
    account = bus.create("Account", {"Name": "Nord", "BillingCity": "Porto"})
    bus.update(account, {"BillingStreet": "Rua 5"})
    bus.delete(account)
    _, plain, _ = told(ALL)
    created, updated, deleted = told("/data/Sales__chn")
    assert set(plain.values) == {"BillingAddress", "LastModifiedDate"}
    assert plain.values["BillingAddress"]["City"] is None
    assert updated.values["Name"] == "Nord"
    assert updated.values["BillingAddress"]["City"] == "Porto"
    assert updated.changed == plain.changed == ["LastModifiedDate", "BillingAddress.Street"]
    assert set(deleted.values) == {"Name", "BillingAddress"}
    assert created.values["Name"] == "Nord"
    assert updated.id == plain.id
    bus.reset_replay_ids()
    assert told("/data/Sales__chn")[1].values["Name"] == "Nord"


def test_enrichment_has_its_limits(bus: Emulator) -> None:
    """Enrichment takes at most ten existing fields of an entity on a channel."""
    bus.define_object("Account")
    bus.define_channel("/data/Sales__chn", ["Account"])
    with pytest.raises(EmulatorError, match="at most 10"):
        bus.enrich("/data/Sales__chn", {"Account": ["Name"] * 11})
    with pytest.raises(EmulatorError, match="no field 'Nope'"):
        bus.enrich("/data/Sales__chn", {"Account": ["Nope"]})
    with pytest.raises(EmulatorError, match="is not a channel"):
        bus.enrich("/data/AccountChangeEvent", {"Account": ["Name"]})


def test_an_untracked_object_leaves_gaps_in_the_numbers(bus: Emulator, told: Told) -> None:
    """An untracked object has no topic and no events."""
    assert bus.define_object("Note__c", {"Body__c": "LongTextArea"}, tracked=False) == ""
    with bus.transaction() as changes:
        changes.create("Account", {"Name": "Nord"})
        note = changes.create("Note__c", {"Body__c": "x"})
        changes.update(note, {"Body__c": "y"})
        changes.create("Contact", {"LastName": "Silva"})
    assert [(one.what[0], one.header["sequenceNumber"]) for one in told()] == [
        ("Account", 1),
        ("Contact", 4),
    ]


@pytest.mark.parametrize("bus", [{"person_accounts": True}], indirect=True)
def test_a_person_account_is_two_records(bus: Emulator, told: Told) -> None:
    """Changes to a person account also change its contact."""
    person = bus.create(
        "Account", {"FirstName": "Ada", "LastName": "Silva", "PersonEmail": "a@example.com"}
    )
    bus.create("Account", {"Name": "Nord"})
    bus.update(person, {"FirstName": "Adela"})
    bus.delete(person)
    [contact] = [one["Id"] for one in bus.records("Contact", deleted=True)]
    events = told()
    assert [one.what for one in events] == [
        ("Account", "CREATE", (person,)),
        ("Contact", "CREATE", (contact,)),
        ("Account", "CREATE", events[2].what[2]),
        ("Account", "UPDATE", (person,)),
        ("Contact", "UPDATE", (contact,)),
        ("Account", "DELETE", (person,)),
        ("Contact", "DELETE", (contact,)),
    ]
    assert events[0].values["Name"]["LastName"] == "Silva"
    assert events[0].values["PersonEmail"] == events[1].values["Email"] == "a@example.com"
    assert events[0].values["PersonContactId"] == contact
    assert events[2].values["Name"] == "Nord"
    assert events[3].changed == events[4].changed == ["LastModifiedDate", "Name.FirstName"]


def test_a_folder_keeps_the_records(tmp_path: Any) -> None:
    """Objects, records, recycle bin, enrichment and numbers survive a restart."""
    with Emulator(folder=tmp_path) as bus:
        bus.define_object("Employee__c", {"Salary__c": "Currency"}, required=["Salary__c"])
        bus.define_channel("/data/Sales__chn", ["Employee__c"])
        bus.enrich("/data/Sales__chn", {"Employee__c": ["Name"]})
        ada = bus.create("Employee__c", {"Name": "Ada", "Salary__c": 10})
        bob = bus.create("Employee__c", {"Name": "Bob", "Salary__c": 20})
        bus.update(ada, {"Salary__c": "12.5"})
        bus.delete(bob)
        kept = bus.records("Employee__c", shape="event")
        said = bus.events("/data/Sales__chn")
        bus.check()
    with Emulator(folder=tmp_path) as bus:
        assert bus.records("Employee__c", shape="event") == kept
        assert [one["Id"] for one in bus.records("Employee__c", deleted=True)] == [bob]
        assert bus.events("/data/Sales__chn") == said
        assert said[2]["fields"]["Name"] == "Ada"
        bus.undelete(bob)
        assert bus.create("Employee__c", {"Salary__c": 1}) not in {ada, bob}
        numbers = [
            one["fields"]["ChangeEventHeader"]["commitNumber"] for one in bus.events("Employee__c")
        ]
        assert numbers == sorted(set(numbers))
        bus.check()


def test_a_change_that_was_cut_off_is_not_there_at_all(tmp_path: Any) -> None:
    """A torn journal record loses both the record and its event."""
    with Emulator(folder=tmp_path) as bus:
        bus.create("Account", {"Name": "Nord"})
        org_id = bus.org.org_id
    log = tmp_path / org_id / "bus.log"
    size = log.stat().st_size
    with Emulator(folder=tmp_path) as bus:
        bus.create("Account", {"Name": "Süd"})
    whole = log.read_bytes()
    for torn in (size + 1, (size + len(whole)) // 2, len(whole) - 1):
        log.write_bytes(whole[:torn])
        with Emulator(folder=tmp_path) as bus:
            assert [one["Name"] for one in bus.records("Account")] == ["Nord"]
            assert len(bus.events(ALL)) == 1


def test_an_entity_with_events_alone_becomes_an_object(bus: Emulator, told: Told) -> None:
    """A defined entity keeps its schema when its first record is created."""
    topic = bus.define_entity(
        "Employee__c",
        {"Name": "Text", "ManagerId": "Lookup", "Home": "Address", "Salary__c": "Currency"},
        selected=False,
    )
    before = bus.schema_id("Employee__c")
    one = bus.create("Employee__c", {"Name": "Ada", "HomeCity": "Porto", "Salary__c": 5})
    bus.change("Employee__c", "UPDATE", one, {"Salary__c": 6})
    assert bus.schema_id("Employee__c") == before
    assert [change.what[1:] for change in told(topic)] == [("CREATE", (one,)), ("UPDATE", (one,))]
    assert told(topic)[0].values["Home"]["City"] == "Porto"
    assert bus.org.bus.topic(ALL) is None


def test_the_sample_has_records_too() -> None:
    """Records of the sample's accounts can be created, and sample events continue."""
    with Emulator(sample=True) as bus:
        before = bus.schema_id("Account")
        account = bus.create("Account", {"Name": "Nord", "Tier__c": "Gold"})
        with pytest.raises(EmulatorError, match="REQUIRED_FIELD_MISSING"):
            bus.create("Contact", {"FirstName": "Ada"})
        bus.publish("/event/Order__e", [{"Order_Number__c": "1"}])
        bus.change("Account", "UPDATE", account, {"Tier__c": "Silver"})
        assert bus.schema_id("Account") == before
        bus.check()
