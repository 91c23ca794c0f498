"""Large reads over REST and Bulk API, which equal the state folded from events."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator, Knobs
from tests.integration.emulator.resting import Rest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with Emulator(knobs=Knobs(query_batch=4, bulk_polls=2)) as bus:
        yield bus
        bus.check()


@pytest.fixture
def rest(bus: Emulator) -> Rest:
    return Rest(bus)


def _accounts(bus: Emulator, count: int) -> list[str]:
    with bus.transaction() as changes:
        return [
            changes.create("Account", {"Name": f"A{n}", "NumberOfEmployees": n})
            for n in range(count)
        ]


def test_a_large_answer_comes_page_by_page(bus: Emulator, rest: Rest) -> None:
    """Pages have every record once, in order; later changes do not show."""
    ids = _accounts(bus, 10)
    first = rest.query("SELECT Id FROM Account ORDER BY NumberOfEmployees").body
    bus.delete(ids[9])
    second = rest.ask("GET", first["nextRecordsUrl"]).body
    third = rest.ask("GET", second["nextRecordsUrl"]).body
    pages = (first, second, third)
    assert [len(page["records"]) for page in pages] == [4, 4, 2]
    assert [page["done"] for page in pages] == [False, False, True]
    assert [page["totalSize"] for page in pages] == [10, 10, 10]
    assert [one["Id"] for page in pages for one in page["records"]] == ids
    assert "nextRecordsUrl" not in third
    assert rest.ask("GET", second["nextRecordsUrl"]).body == third


def test_the_size_of_a_page_can_be_asked_for() -> None:
    """A page has at least 200 records and at most the org's size."""
    with Emulator() as bus:
        _accounts(bus, 250)
        rest = Rest(bus)
        soql = "SELECT Id FROM Account"
        sizes = [
            len(rest.query(soql, Sforce_Query_Options=f"batchSize={size}").body["records"])
            for size in (1, 210, 9999)
        ]
        assert sizes == [200, 210, 250]
        assert len(rest.query(soql).body["records"]) == 250
        bus.check()


@pytest.mark.parametrize(
    ("characters", "status"),
    [(15_800, 200), (16_300, 431), (16_500, 414)],
    ids=["within", "with its headers", "alone"],
)
def test_a_uri_and_its_headers_have_a_limit(rest: Rest, characters: int, status: int) -> None:
    """URI and headers of more than 16,384 bytes are refused with a page of HTML."""
    soql = f"SELECT Id FROM Account WHERE Name = '{'A' * (characters - 100)}'"  # noqa: S608
    said = rest.query(soql)
    assert said.status == status
    if status != 200:
        assert f"Bad Message {status}" in str(said.body)


def test_deleted_records_are_read_with_query_all(bus: Emulator, rest: Rest) -> None:
    """Only queryAll returns deleted records, which are marked."""
    kept, gone = _accounts(bus, 2)
    bus.delete(gone)
    soql = "SELECT Id, IsDeleted FROM Account"
    assert rest.read_all(soql) == [{"Id": kept, "IsDeleted": False}]
    assert rest.read_all(soql, "queryAll") == [
        {"Id": kept, "IsDeleted": False},
        {"Id": gone, "IsDeleted": True},
    ]


def test_records_are_counted(bus: Emulator, rest: Rest) -> None:
    """COUNT() returns a total and no records."""
    _accounts(bus, 5)
    answer = rest.query("SELECT COUNT() FROM Account WHERE NumberOfEmployees > 2").body
    assert answer == {"totalSize": 2, "done": True, "records": []}


@pytest.mark.parametrize(
    ("soql", "code"),
    [
        ("SELECT * FROM Account", "MALFORMED_QUERY"),
        ("SELECT Id FROM Nope", "INVALID_TYPE"),
        ("SELECT Nope FROM Account", "INVALID_FIELD"),
        ("SELECT FIELDS(ALL) FROM Account", "MALFORMED_QUERY"),
    ],
)
def test_a_query_is_refused_alike_everywhere(rest: Rest, soql: str, code: str) -> None:
    """query, queryAll and bulk jobs refuse a query alike."""
    answers = [rest.query(soql), rest.query(soql, "queryAll")]
    answers.append(rest.ask("POST", "/jobs/query", {"operation": "query", "query": soql}))
    assert [(one.status, one.code) for one in answers] == [(400, code)] * 3


def test_an_unknown_page_is_refused(rest: Rest) -> None:
    """An unknown locator is refused."""
    assert rest.ask("GET", "/query/01g000000000001AAA-4").code == "INVALID_QUERY_LOCATOR"


def test_a_bulk_job_is_polled_and_read_in_parts(bus: Emulator, rest: Rest) -> None:
    """A bulk job has states, counts and locators; each part has column names."""
    ids = _accounts(bus, 5)
    soql = "SELECT Id, Name, NumberOfEmployees, Phone, IsDeleted, CreatedDate FROM Account"
    job = rest.ask("POST", "/jobs/query", {"operation": "query", "query": soql}).body
    path = f"/jobs/query/{job['id']}"
    assert (job["state"], job["object"], job["apiVersion"]) == ("UploadComplete", "Account", 64.0)
    assert rest.ask("GET", f"{path}/results").code == "INVALIDJOBSTATE"
    polled = [rest.ask("GET", path).body for _ in range(3)]
    assert [one["state"] for one in polled] == ["InProgress", "InProgress", "JobComplete"]
    assert polled[-1]["numberRecordsProcessed"] == 5
    part = rest.ask("GET", f"{path}/results?maxRecords=3")
    assert part.headers["sforce-numberofrecords"] == "3"
    lines = part.body.splitlines()
    assert lines[0] == '"Id","Name","NumberOfEmployees","Phone","IsDeleted","CreatedDate"'
    assert lines[1].startswith(f'"{ids[0]}","A0","0","","false","20')
    assert lines[1].endswith('.000Z"')
    rest_of = rest.ask("GET", f"{path}/results?locator={part.headers['sforce-locator']}")
    assert rest_of.headers["sforce-locator"] == "null"
    assert len(rest_of.body.splitlines()) == 3
    assert [row["Id"] for row in rest.bulk(soql, part=2)] == ids


def test_a_bulk_job_has_its_other_ends(bus: Emulator, rest: Rest) -> None:
    """Bulk jobs can be aborted, deleted and delimited; compounds are refused."""
    _accounts(bus, 1)
    wanted = {"operation": "query", "query": "SELECT Id, Name FROM Account"}
    job = rest.ask(
        "POST", "/jobs/query", {**wanted, "columnDelimiter": "PIPE", "lineEnding": "CRLF"}
    )
    path = f"/jobs/query/{job.body['id']}"
    while rest.ask("GET", path).body["state"] != "JobComplete":
        pass
    assert rest.ask("GET", f"{path}/results").body.startswith('"Id"|"Name"\r\n')
    assert rest.ask("PATCH", path, {"state": "Aborted"}).body["state"] == "Aborted"
    assert rest.ask("GET", f"{path}/results").code == "INVALIDJOBSTATE"
    assert [one["id"] for one in rest.ask("GET", "/jobs/query").body["records"]] == [job.body["id"]]
    assert rest.ask("DELETE", path).status == 204
    assert rest.ask("GET", path).code == "NOT_FOUND"
    compound = {**wanted, "query": "SELECT BillingAddress FROM Account"}
    assert rest.ask("POST", "/jobs/query", compound).code == "FUNCTIONALITY_NOT_ENABLED"
    assert rest.ask("POST", "/jobs/query", {**wanted, "operation": "insert"}).code == "INVALIDJOB"


def _folded(bus: Emulator, entity: str) -> dict[str, dict[str, Any]]:
    """Records folded from the events alone, in the simplest way."""
    records: dict[str, dict[str, Any]] = {}
    for event in bus.events(entity):
        fields = dict(event["fields"])
        header = fields.pop("ChangeEventHeader")
        for record_id in header["recordIds"]:
            match header["changeType"]:
                case "CREATE" | "UNDELETE":
                    records[record_id] = fields
                case "DELETE":
                    del records[record_id]
                case "UPDATE":
                    records[record_id] = _updated(records[record_id], fields, header)
    return records


def _updated(
    record: dict[str, Any], fields: dict[str, Any], header: dict[str, Any]
) -> dict[str, Any]:
    after = dict(record)
    for name in header["changedFields"]:
        parent, _, member = name.partition(".")
        if member:
            inside = {
                **(after[parent] or dict.fromkeys(fields[parent])),
                member: fields[parent][member],
            }
            after[parent] = inside if any(v is not None for v in inside.values()) else None
        else:
            after[name] = fields[name]
    return after


@pytest.mark.parametrize("seed", range(5))
def test_events_folded_are_the_org(bus: Emulator, rest: Rest, seed: int) -> None:
    """The folded events equal the org's records, queries and bulk results."""
    pick = random.Random(seed)  # noqa: S311 - repeatable
    alive: dict[str, list[str]] = {"Account": [], "Contact": []}
    gone: list[str] = []
    texts = ("Porto", "Tours", None)

    def some(entity: str) -> dict[str, Any]:
        accounts = {
            "Phone": pick.choice(texts),
            "BillingCity": pick.choice(texts),
            "BillingLatitude": pick.choice((41.1, None)),
            "NumberOfEmployees": pick.choice((None, 5, 7)),
        }
        contacts = {
            "FirstName": pick.choice(texts),
            "MailingCity": pick.choice(texts),
            "Birthdate": pick.choice(("1980-01-02", None)),
            "HasOptedOutOfEmail": pick.choice((True, False)),
        }
        given: dict[str, Any] = {**(accounts if entity == "Account" else contacts)}
        return dict(pick.sample(sorted(given.items()), pick.randint(1, len(given))))

    for _ in range(60):
        entity = pick.choice(("Account", "Contact"))
        mine = alive[entity]
        step = pick.choice(("create", "update", "update", "update", "delete", "undelete"))
        if step == "create" or not mine:
            name = {"Account": "Name", "Contact": "LastName"}[entity]
            mine.append(bus.create(entity, {name: "x", **some(entity)}))
        elif step == "update":
            bus.update(pick.sample(mine, pick.randint(1, min(3, len(mine)))), some(entity))
        elif step == "delete":
            gone.append(mine.pop(pick.randrange(len(mine))))
            bus.delete(gone[-1])
        elif gone:
            back = gone.pop()
            bus.undelete(back)
            alive["Account" if back.startswith("001") else "Contact"].append(back)
    for entity, mine in alive.items():
        held = {one.pop("Id"): one for one in bus.records(entity, shape="event")}
        assert set(held) == set(mine)
        assert _folded(bus, entity) == held
        soql = f"SELECT Id, Phone, LastModifiedDate FROM {entity}"  # noqa: S608
        read = {one["Id"]: one["Phone"] for one in rest.read_all(soql)}
        assert read == {one: held[one]["Phone"] for one in mine}
        assert {one["Id"]: one["Phone"] or None for one in rest.bulk(soql, part=3)} == read
