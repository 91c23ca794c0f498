"""Queries are parsed, run and refused as in the SOQL guide."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_sfevents.emulator.knobs import Knobs
from airflow_provider_sfevents.emulator.org.objects.object_evolution import define
from airflow_provider_sfevents.emulator.org.queries.record_selection import select
from airflow_provider_sfevents.emulator.org.queries.soql import (
    SoqlComparison,
    SoqlLiteral,
    SortKey,
    parse,
)
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError
from airflow_provider_sfevents.emulator.org.records import record_views
from airflow_provider_sfevents.emulator.org.records.record_edits import (
    Record,
    RecordEdit,
    apply,
    read_given,
)

CONTACT = define("Contact", {}, required=(), tracked=True, known=(), knobs=Knobs())
DAY = 86_400_000
PEOPLE: tuple[dict[str, Any], ...] = (
    {"LastName": "Silva", "FirstName": "Bruno", "Title": "Buyer", "Birthdate": "1970-01-02"},
    {"LastName": "Okafor", "FirstName": "Amara", "Title": "buyer", "Birthdate": "1980-05-06"},
    {"LastName": "Kaya", "Title": "Director", "HasOptedOutOfEmail": True},
    {"LastName": "O'Hara", "FirstName": "Joan", "AccountId": "001gL0000004C93QAE"},
    {"LastName": "Gone", "FirstName": "Dmitri"},
)


def _records() -> list[Record]:
    made = []
    for number, given in enumerate(PEOPLE):
        edit = RecordEdit(
            kind="CREATE",
            entity="Contact",
            record_id=f"003{number:012d}AAA",
            user_id="005gL000000000AQAQ",
            given=read_given(CONTACT, given),
        )
        made.append(apply(edit, CONTACT, None, number * DAY)[0])
    gone = RecordEdit(kind="DELETE", entity="Contact", record_id=made[-1].id, user_id="u")
    made[-1] = apply(gone, CONTACT, made[-1], 9 * DAY)[0]
    return made


def _names(rest: str, *, deleted: bool = False) -> list[Any]:
    found = select(
        parse("SELECT LastName FROM Contact " + rest),  # noqa: S608 - no database reads it
        CONTACT,
        _records(),
        deleted=deleted,
    )
    return [one.get("LastName") for one in found.records]


@pytest.mark.parametrize(
    ("rest", "names"),
    [
        ("", ["Silva", "Okafor", "Kaya", "O'Hara"]),
        ("WHERE Title = 'BUYER'", ["Silva", "Okafor"]),
        ("WHERE Title != 'buyer'", ["Kaya", "O'Hara"]),
        ("WHERE Title = null", ["O'Hara"]),
        ("WHERE Title <> NULL AND FirstName = null", ["Kaya"]),
        ("WHERE Title IN ('Buyer', 'Director') AND LastName != 'Silva'", ["Okafor", "Kaya"]),
        ("WHERE Title NOT IN ('Buyer')", ["Kaya", "O'Hara"]),
        (r"WHERE LastName = 'O\'Hara'", ["O'Hara"]),
        ("WHERE LastName LIKE 'o%' ", ["Okafor", "O'Hara"]),
        ("WHERE Name = 'Bruno Silva'", ["Silva"]),
        ("WHERE AccountId = '001gL0000004C93'", ["O'Hara"]),
        ("WHERE HasOptedOutOfEmail = true", ["Kaya"]),
        ("WHERE Birthdate < 1975-01-01", ["Silva"]),
        ("WHERE Birthdate > 1975-01-01", ["Okafor"]),
        ("WHERE CreatedDate >= 1970-01-03T00:00:00Z", ["Kaya", "O'Hara"]),
        ("WHERE CreatedDate < 1970-01-02T01:00:00+02:00", ["Silva"]),
        (
            "WHERE (Title = 'Buyer' AND FirstName = 'Amara') OR LastName = 'Kaya'",
            ["Okafor", "Kaya"],
        ),
        ("WHERE NOT (Title = 'Buyer' OR Title = 'Director')", ["O'Hara"]),
        ("WHERE Contact.LastName = 'Kaya'", ["Kaya"]),
        ("ORDER BY LastName", ["Kaya", "O'Hara", "Okafor", "Silva"]),
        ("ORDER BY LastName DESC LIMIT 2", ["Silva", "Okafor"]),
        ("ORDER BY Title, LastName DESC", ["O'Hara", "Silva", "Okafor", "Kaya"]),
        ("ORDER BY Title NULLS LAST", ["Silva", "Okafor", "Kaya", "O'Hara"]),
        ("ORDER BY LastName LIMIT 1 OFFSET 1", ["O'Hara"]),
        ("LIMIT 0", []),
    ],
)
def test_queries_find_what_they_ask_for(rest: str, names: list[str]) -> None:
    """Queries compare case-insensitively, skip deleted records and handle null."""
    assert _names(rest) == names


def test_deleted_records_are_found_when_asked_for() -> None:
    """A query for all includes deleted records and can distinguish them."""
    assert _names("", deleted=True)[-1] == "Gone"
    assert _names("WHERE IsDeleted = true", deleted=True) == ["Gone"]
    assert _names("WHERE IsDeleted = true") == []


def test_a_query_is_read_whole() -> None:
    """Every part of a query is kept as written."""
    query = parse("select Id , name from Contact where Age__c >= -1.5 order by Name desc limit 5")
    assert (query.entity, query.fields, query.limit) == ("Contact", ("Id", "name"), 5)
    assert query.where == SoqlComparison("Age__c", ">=", (SoqlLiteral("number", -1.5),))
    assert query.order == (SortKey("Name", descending=True),)


def test_all_fields_are_those_of_rest() -> None:
    """FIELDS(ALL) selects plain fields and compounds."""
    found = select(
        parse("SELECT FIELDS(ALL) FROM Contact LIMIT 200"), CONTACT, _records(), deleted=False
    )
    assert found.columns == tuple(record_views.every_column(CONTACT))
    assert {"Name", "MailingAddress", "MailingCity", "Id", "SystemModstamp"} <= {
        column.name for column in found.columns
    }


@pytest.mark.parametrize(
    ("text", "at", "token"),
    [
        ("SELECT * FROM Contact", 8, "*"),
        ("SELECT Id Contact", 11, "Contact"),
        ("SELECT Id, FROM Contact", 12, "FROM"),
        ("SELECT Id FROM Contact WHERE", 29, "<EOF>"),
        ("SELECT Id FROM Contact WHERE Name = Bruno", 37, "Bruno"),
        ("SELECT Id FROM Contact WHERE Name = 'a' AND Id = 'b' OR Id = 'c'", 54, "OR"),
        ("SELECT Id FROM Contact LIMIT ten", 30, "ten"),
        ("SELECT Id FROM Contact GROUP BY Id", 24, "GROUP"),
        ("SELECT Id, (SELECT Id FROM Cases) FROM Contact", 12, "("),
        ("SELECT Id FROM Contact WHERE CreatedDate = TODAY", 44, "TODAY"),
        ("", 1, "<EOF>"),
        ("DELETE FROM Contact", 1, "DELETE"),
        ("SELECT Id FROM Contact WHERE Name = 'a", 37, "'"),
        ("SELECT Id FROM Contact WHERE Name IN ()", 39, ")"),
    ],
)
def test_what_is_not_understood_is_malformed(text: str, at: int, token: str) -> None:
    """The refusal shows the position and the unexpected token."""
    with pytest.raises(RecordRefusedError) as refused:
        parse(text)
    assert refused.value.code == "MALFORMED_QUERY"
    assert refused.value.message.endswith(
        f"ERROR at Row:1:Column:{at}\nunexpected token: '{token}'"
    )


@pytest.mark.parametrize("limit", ["", "LIMIT 201", "LIMIT 2000"])
def test_all_fields_of_many_records_are_refused(limit: str) -> None:
    """FIELDS(ALL) needs a LIMIT of at most 200."""
    with pytest.raises(RecordRefusedError, match="must have a LIMIT of at most 200"):
        parse("SELECT FIELDS(ALL) FROM Contact " + limit)  # noqa: S608 - no database reads it


@pytest.mark.parametrize(
    ("rest", "message"),
    [
        ("WHERE Nope = 1", "No such column 'Nope' on entity 'Contact'"),
        ("ORDER BY Nope", "No such column 'Nope'"),
        ("WHERE Account.Name = 'x'", "No such column 'Account.Name'"),
        ("WHERE LastName = 5", "must be of type string and should be enclosed in quotes"),
        ("WHERE Birthdate > '1970-01-01'", "must be of type date and should not be enclosed"),
        ("WHERE CreatedDate > 1970-01-01", "must be of type dateTime"),
        ("WHERE Description = 'x'", "'Description' can not be filtered in a query call"),
        ("WHERE MailingAddress = 'x'", "'MailingAddress' can not be filtered"),
        ("WHERE CreatedDate LIKE '1970%'", "invalid operator on dateTime field"),
    ],
)
def test_fields_that_cannot_be_asked_for_are_invalid(rest: str, message: str) -> None:
    """An unknown field is refused with INVALID_FIELD and its name."""
    with pytest.raises(RecordRefusedError, match=message) as refused:
        _names(rest)
    assert refused.value.code == "INVALID_FIELD"


def test_a_moment_that_does_not_exist_is_malformed() -> None:
    """The thirtieth of February is refused."""
    with pytest.raises(RecordRefusedError, match="invalid date: 1970-02-30"):
        _names("WHERE Birthdate = 1970-02-30")
