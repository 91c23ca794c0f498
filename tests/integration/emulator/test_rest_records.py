"""Records over REST: written, published and refused as Salesforce does."""

from __future__ import annotations

from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.emulator import Emulator
from tests.integration.emulator.resting import Rest

if TYPE_CHECKING:
    from collections.abc import Iterator

ALL = "/data/ChangeEvents"
WINDOW = "start=2020-01-01T00:00:00%2B00:00&end=2040-01-01T00:00:00Z"


@pytest.fixture
def bus() -> Iterator[Emulator]:
    with Emulator() as bus:
        yield bus
        bus.check()


@pytest.fixture
def rest(bus: Emulator) -> Rest:
    return Rest(bus)


def _headers(bus: Emulator) -> list[dict[str, Any]]:
    return [event["fields"]["ChangeEventHeader"] for event in bus.events(ALL)]


def test_a_record_is_made_changed_and_deleted(bus: Emulator, rest: Rest) -> None:
    """Each request is a change event with the API's origin and the client's name."""
    made = rest.ask(
        "POST",
        "/sobjects/account",
        {"Name": "Nord", "billingcity": "Porto"},
        Sforce_Call_Options="client=loader/2, defaultNamespace=x",
    )
    record_id = made.body["id"]
    assert (made.status, made.body) == (201, {"id": record_id, "success": True, "errors": []})
    path = f"/sobjects/Account/{record_id[:15]}"
    assert rest.ask("PATCH", path, {"Phone": "1", "BillingCity": None})[:2] == (204, None)
    assert rest.ask("GET", f"{path}?fields=name,BillingAddress,Phone").body == {
        "attributes": {
            "type": "Account",
            "url": f"/services/data/v64.0/sobjects/Account/{record_id}",
        },
        "Id": record_id,
        "Name": "Nord",
        "BillingAddress": None,
        "Phone": "1",
    }
    assert rest.ask("DELETE", path)[:2] == (204, None)
    assert rest.ask("GET", path).code == "NOT_FOUND"
    assert [(one["changeType"], one["changeOrigin"]) for one in _headers(bus)] == [
        ("CREATE", "com/salesforce/api/rest/64.0;client=loader/2"),
        ("UPDATE", "com/salesforce/api/rest/64.0"),
        ("DELETE", "com/salesforce/api/rest/64.0"),
    ]
    assert _headers(bus)[1]["nulledFields"] == ["BillingAddress.City"]


def test_a_record_is_shown_in_rests_own_way(bus: Emulator, rest: Rest) -> None:
    """REST shows plain fields and compounds, with lower camel case and offsets."""
    record_id = bus.create(
        "Contact",
        {
            "FirstName": "Ada",
            "LastName": "Silva",
            "MailingCity": "Porto",
            "Birthdate": "1980-01-02",
        },
    )
    shown = rest.ask("GET", f"/sobjects/Contact/{record_id}").body
    assert (shown["Name"], shown["LastName"], shown["MailingCity"]) == (
        "Ada Silva",
        "Silva",
        "Porto",
    )
    assert shown["MailingAddress"]["city"] == "Porto"
    assert set(shown["MailingAddress"]) >= {"postalCode", "geocodeAccuracy", "latitude"}
    assert (shown["Birthdate"], shown["IsDeleted"]) == ("1980-01-02", False)
    assert shown["CreatedDate"].endswith(".000+0000")
    assert shown["CreatedDate"] == shown["SystemModstamp"] == shown["LastModifiedDate"]


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", "/sobjects/Account", {}, 400, "REQUIRED_FIELD_MISSING"),
        ("POST", "/sobjects/Account", {"Name": "x", "Nope": 1}, 400, "INVALID_FIELD"),
        ("POST", "/sobjects/Account", b"{", 400, "JSON_PARSER_ERROR"),
        ("POST", "/sobjects/Account", [1], 400, "JSON_PARSER_ERROR"),
        (
            "POST",
            "/sobjects/Account",
            {"Name": "x", "BillingAddress": {"City": "Porto"}},
            400,
            "INVALID_FIELD_FOR_INSERT_UPDATE",
        ),
        ("POST", "/sobjects/Nope", {"Name": "x"}, 404, "NOT_FOUND"),
        ("POST", "/sobjects/Nope__e", {"Name": "x"}, 404, "NOT_FOUND"),
        ("GET", "/sobjects/Account/001000000000001AAA", None, 404, "NOT_FOUND"),
        ("GET", "/sobjects/Account/nope", None, 404, "NOT_FOUND"),
        ("PATCH", "/sobjects/Account/{gone}", {"Phone": "1"}, 404, "ENTITY_IS_DELETED"),
        ("DELETE", "/sobjects/Account/{gone}", None, 404, "ENTITY_IS_DELETED"),
        ("GET", "/sobjects/Contact/{here}", None, 404, "NOT_FOUND"),
        ("GET", "/sobjects/Account/{here}?fields=Nope", None, 400, "INVALID_FIELD"),
        ("GET", "/nowhere", None, 404, "NOT_FOUND"),
        ("GET", "/services/data/v6/sobjects", None, 404, "NOT_FOUND"),
        ("GET", "/sobjects/Account/deleted?start=x&end=y", None, 400, "INVALID_REPLICATION_DATE"),
    ],
)
def test_mistakes_get_salesforces_answers(
    bus: Emulator, rest: Rest, method: str, path: str, body: Any, status: int, code: str
) -> None:
    """Each mistake has its status and code and changes nothing."""
    here, gone = (bus.create("Account", {"Name": name}) for name in ("here", "gone"))
    bus.delete(gone)
    before = len(bus.events(ALL))
    answer = rest.ask(method, path.format(here=here, gone=gone), body)
    assert (answer.status, answer.code) == (status, code)
    assert len(bus.events(ALL)) == before


def test_only_the_orgs_own_tokens_are_good(bus: Emulator, rest: Rest) -> None:
    """A missing, wrong, expired or foreign token gets 401."""
    bad = (401, [{"message": "Session expired or invalid", "errorCode": "INVALID_SESSION_ID"}])
    other = Rest(bus, bus.add_org("other")).headers["Authorization"]
    for token in ("", "Bearer nonsense", other):
        assert rest.ask("GET", "/limits", Authorization=token)[:2] == bad
    assert rest.ask("GET", "/limits").status == 200
    bus.expire_tokens()
    assert rest.ask("GET", "/limits")[:2] == bad
    assert rest.ask("GET", "/services/data").body[0].keys() == {"label", "url", "version"}


def test_a_request_fails_when_it_was_ordered(bus: Emulator, rest: Rest) -> None:
    """A REST request fails on order, like a login."""
    bus.fail_next("rest", status="UNAVAILABLE", times=2)
    bus.fail_next("rest", status="RESOURCE_EXHAUSTED")
    answers = [rest.ask("GET", "/limits") for _ in range(4)]
    assert [one.status for one in answers] == [503, 503, 403, 200]
    assert answers[2].code == "REQUEST_LIMIT_EXCEEDED"
    assert bus.requests[-1].subject == "GET /services/data/v64.0/limits"


def test_what_was_deleted_and_updated_can_be_asked(bus: Emulator, rest: Rest) -> None:
    """Deleted and updated records are listed by time."""
    kept, gone = (bus.create("Account", {"Name": name}) for name in ("kept", "gone"))
    bus.delete(gone)
    deleted = rest.ask("GET", f"/sobjects/Account/deleted/?{WINDOW}").body
    assert [one["id"] for one in deleted["deletedRecords"]] == [gone]
    assert deleted["deletedRecords"][0]["deletedDate"].endswith("+0000")
    assert rest.ask("GET", f"/sobjects/Account/updated?{WINDOW}").body["ids"] == [kept]
    before = "start=2020-01-01T00:00:00Z&end=2020-02-01T00:00:00Z"
    assert rest.ask("GET", f"/sobjects/Account/deleted/?{before}").body["deletedRecords"] == []


def test_several_records_are_one_transaction(bus: Emulator, rest: Rest) -> None:
    """Several changes are one transaction; a failed one fails alone or undoes all."""
    records = [{"attributes": {"type": "Account"}, "Name": f"A{n}"} for n in range(2)]
    broken = {"attributes": {"type": "Account"}}
    mixed = rest.ask("POST", "/composite/sobjects", {"records": [*records, broken]}).body
    assert [one["success"] for one in mixed] == [True, True, False]
    assert mixed[2]["errors"][0]["statusCode"] == "REQUIRED_FIELD_MISSING"
    ids = [one["id"] for one in mixed[:2]]
    none = rest.ask(
        "POST", "/composite/sobjects", {"allOrNone": True, "records": [*records, broken]}
    ).body
    assert none[0]["errors"][0]["statusCode"] == "ALL_OR_NONE_OPERATION_ROLLED_BACK"
    changed = [
        {"attributes": {"type": "Account"}, "id": one, "Phone": str(n)} for n, one in enumerate(ids)
    ]
    rest.ask("PATCH", "/composite/sobjects", {"records": changed})
    assert rest.ask("DELETE", f"/composite/sobjects?ids={','.join(ids)}&allOrNone=true").body == [
        {"id": one, "success": True, "errors": []} for one in ids
    ]
    told = [(one["changeType"], one["recordIds"], one["sequenceNumber"]) for one in _headers(bus)]
    assert told == [
        ("CREATE", [ids[0]], 1),
        ("CREATE", [ids[1]], 2),
        ("UPDATE", [ids[0]], 1),
        ("UPDATE", [ids[1]], 2),
        ("DELETE", ids, 1),
    ]
    assert rest.ask("DELETE", "/composite/sobjects?ids=xyz").body[0]["errors"][0]["statusCode"] == (
        "MALFORMED_ID"
    )
    too_many = {"records": [broken] * 201}
    assert rest.ask("POST", "/composite/sobjects", too_many).code == "INVALID_BATCH_SIZE"


def test_answers_are_dated_by_the_clock_of_commit_times(bus: Emulator, rest: Rest) -> None:
    """Answers are dated by the clock of the commit times."""
    bus.clock.advance(minutes=30)
    made = rest.ask("POST", "/sobjects/Account", {"Name": "Nord"})
    committed = _headers(bus)[-1]["commitTimestamp"] / 1000

    told = parsedate_to_datetime(made.headers["date"]).timestamp()

    assert 0 <= told - committed < 60


def test_objects_describe_themselves(bus: Emulator, rest: Rest) -> None:
    """Objects have names, prefixes and typed fields; a description creates no topic."""
    listed = {one["name"]: one for one in rest.ask("GET", "/sobjects").body["sobjects"]}
    tracked = {"Account", "Contact", "Opportunity", "Lead"}
    assert set(listed) == {*tracked, "PushTopic", "StreamingChannel"}
    about = rest.ask("GET", "/sobjects/Opportunity").body["objectDescribe"]
    assert (about, about["keyPrefix"]) == (listed["Opportunity"], "006")
    assert bus.org.bus.topics == ()
    bus.define_object("Employee__c", {"Salary__c": "Currency", "Home__c": "Location"})
    shown = rest.ask("GET", "/sobjects/Employee__c/describe").body
    assert (shown["keyPrefix"], shown["custom"]) == ("a00", True)
    fields = {one["name"]: one for one in shown["fields"]}
    kinds = {name: one["type"] for name, one in fields.items()}
    assert kinds["Id"] == "id"
    assert (kinds["OwnerId"], kinds["CreatedDate"], kinds["IsDeleted"]) == (
        "reference",
        "datetime",
        "boolean",
    )
    assert (kinds["Salary__c"], kinds["Home__c"]) == ("currency", "location")
    assert fields["Home__Latitude__s"]["compoundFieldName"] == "Home__c"
    assert (fields["Salary__c"]["createable"], fields["CreatedDate"]["createable"]) == (True, False)


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("GET", "/services/data", None, 200),
        ("GET", "", None, 200),
        ("GET", "/limits", None, 200),
        ("GET", "/sobjects", None, 200),
        ("GET", "/sobjects/Account", None, 200),
        ("POST", "/sobjects/Account", {"Name": "Nord"}, 201),
        ("GET", "/sobjects/Account/describe", None, 200),
        ("PATCH", "/sobjects/Account/{record}", {"Name": "Nord"}, 204),
        ("POST", "/composite/sobjects", {"records": []}, 200),
        ("POST", "/jobs/query", {"operation": "query", "query": "SELECT Id FROM Account"}, 200),
        ("GET", "/nothing/there", None, 404),
    ],
)  # fmt: skip
def test_a_slash_at_the_end(
    bus: Emulator, rest: Rest, method: str, path: str, body: Any, status: int
) -> None:
    """Each REST resource accepts a trailing slash."""
    path = path.format(record=bus.create("Account", {"Name": "Nord"}))
    assert [rest.ask(method, f"{path}{end}", body).status for end in ("", "/")] == [status] * 2
