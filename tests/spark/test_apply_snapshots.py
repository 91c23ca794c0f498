"""Entity snapshots fill and repair current-state tables, or are refused, on a real Spark."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark import entity_snapshot
from airflow_provider_sfevents.spark.avro.arrow_columns import fitting_decimal
from airflow_provider_sfevents.spark.changes.fields import Layout
from airflow_provider_sfevents.spark.current_state.snapshot.full_records import filling
from airflow_provider_sfevents.spark.schema.field_types import Column, FieldType
from tests.harness.jars import Jars, or_skip
from tests.harness.step_hooks import on_steps
from tests.spark.event_schemas import SCHEMAS
from tests.spark.orgs import A, B, CurrentState, JobKilledError, event, killing

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import Staging

pytestmark = [
    pytest.mark.spark,
    pytest.mark.full,
    pytest.mark.timeout(900),
    pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning"),
]
ADA = "003000000000001AAA"
CONTACT = {"attributes": {"type": "Contact"}}
BULK = (
    '"Id","Name","FirstName","LastName","Industry","BillingStreet","BillingCity","Employees"\n'
    f'"{A}","Acme","","","Mining","1 ""Main""\nSt","Bath","3"\n'
    f'"{B}","Ada Byron","Ada","Byron","","","",""\n'
)
LATER, EARLIER = "2026-11-01T00:01:00Z", "2026-11-01T00:00:30Z"


def resolved(state: CurrentState, entity: str, records: Path, read_at: str, *more: str) -> Any:
    where = ["--current-state", state.root, "--format", state.table_format, "--entity", entity]
    form = "csv" if records.is_dir() else "json"
    read = ["--records", str(records), "--records-format", form, "--read-at", read_at]
    *_, act = entity_snapshot.job_of([*where, *read, *more])
    return act(state.spark, None)


def test_tables_are_seeded_by_bulk_and_by_rest(
    spark: Any, jars: Jars, staging: Staging, tmp_path: Path
) -> None:
    """A snapshot makes a table without an event, and kept events are applied after it."""
    or_skip(lambda: jars.iceberg)
    state = CurrentState(spark, str(tmp_path / "lake"), "iceberg", staging, {})
    state.apply(
        state.stage(
            event(staging, 1, "CREATE", A, Name="Acme"),
            event(staging, 70, "UPDATE", B, Industry="Shipping"),
        )
    )
    assert (len(state.rows("Account")), len(state.rows("kept"))) == (0, 2)
    bulk, report = tmp_path / "bulk", tmp_path / "report.json"
    bulk.mkdir()
    (bulk / "part-00001.csv").write_text(BULK)

    counts = resolved(state, "Account", bulk, LATER, "--report", str(report))

    assert json.loads(report.read_text()) == counts
    assert (counts["replaced"], counts["resync_entities"]) == (2, 0)
    assert state.rows(
        "Account", "record_id", "Name", "Industry", "BillingAddress", "Employees"
    ) == [
        {
            "record_id": A,
            "Name": {"FirstName": None, "LastName": None, "Name": "Acme"},
            "Industry": "Mining",
            "BillingAddress": {"Street": '1 "Main"\nSt', "City": "Bath"},
            "Employees": 3,
        },
        {
            "record_id": B,
            "Name": {"FirstName": "Ada", "LastName": "Byron", "Name": None},
            "Industry": "Shipping",
            "BillingAddress": None,
            "Employees": None,
        },
    ]
    assert state.rows("kept") == state.rows("resync") == []

    rest = tmp_path / "contacts.jsonl"
    record = {**CONTACT, "Id": ADA, "Name": "Ada", "Industry": None}
    rest.write_text(json.dumps({**record, "BillingAddress": {"city": "Bath"}, "Employees": 3.0}))
    with pytest.raises(ConfigurationError, match="types are not known"):
        resolved(state, "Contact", rest, LATER)
    schema = tmp_path / "schema.avsc"
    schema.write_text(json.dumps(SCHEMAS["org_contact"]))
    assert resolved(state, "Contact", rest, LATER, "--event-schema", str(schema))["replaced"] == 1
    assert state.rows("Contact", "Employees", "BillingAddress") == [
        {"Employees": 3, "BillingAddress": {"Street": None, "City": "Bath"}}
    ]
    with pytest.raises(ConfigurationError, match="it knows less"):
        resolved(state, "Contact", rest, EARLIER)
    with pytest.raises(StagingError, match="has 1 record of Contact, and 2 were read"):
        resolved(state, "Contact", rest, "2026-11-01T00:02:00Z", "--records-read", "2")
    rest.write_text(json.dumps({**record, "BillingAddress": {"city": "Bath"}, "Employees": "many"}))
    with pytest.raises(ConfigurationError, match="Employees='many'"):
        resolved(state, "Contact", rest, "2026-11-01T00:02:00Z")


def test_a_read_fills_the_column_that_the_events_of_a_field_fill(
    spark: Any, jars: Jars, staging: Staging, tmp_path: Path
) -> None:
    """A snapshot changes no value of a field that became text and then a number again."""
    or_skip(lambda: jars.iceberg)
    number = SCHEMAS["org_account2"]
    last = {**number["fields"][-1], "type": ["null", "string"], "doc": "Data:Text"}
    text = {**number, "fields": [*number["fields"][:-1], last]}
    staging.schemas["org_account_text"] = SCHEMAS["org_account_text"] = text
    state = CurrentState(spark, str(tmp_path / "lake"), "iceberg", staging)
    for change in (
        event(staging, 1, "CREATE", A, schema="org_account2", Extra__c=1.5),
        event(staging, 2, "CREATE", B, schema="org_account_text", Extra__c="ten"),
        event(staging, 3, "UPDATE", B, schema="org_account2", changed=["0x20"], Extra__c=10.0),
    ):
        state.apply(state.stage(change))
    before = state.rows("Account", "record_id", "Extra__c", "Extra__c__string")
    nothing = dict.fromkeys(("Name", "Industry", "BillingAddress", "Employees"))
    read, schema = tmp_path / "accounts.jsonl", tmp_path / "schema.avsc"
    read.write_text(
        "\n".join(
            json.dumps({"Id": one, "Extra__c": value, **nothing})
            for one, value in ((A, 1.5), (B, 10.0))
        )
    )
    schema.write_text(json.dumps(number))
    lacking = ("--lacking", "BillingAddress")

    with pytest.raises(ConfigurationError, match=r"Extra__c of Account .*--event-schema"):
        resolved(state, "Account", read, LATER, *lacking)
    more = ("--event-schema", str(schema), *lacking)
    assert resolved(state, "Account", read, LATER, *more)["replaced"] == 2

    assert state.rows("Account", "record_id", "Extra__c", "Extra__c__string") == before
    assert [row["Extra__c"] for row in before] == [1.5, 10.0]


def test_a_read_follows_the_schema_that_it_is_given(
    spark: Any, jars: Jars, staging: Staging, tmp_path: Path
) -> None:
    """Without an event of the new schema, kinds that changed and new fields have their columns.

    A read that is refused records no types, and decimals are rounded as those of events are.
    """
    or_skip(lambda: jars.delta)
    base = SCHEMAS["org_account2"]
    number = base["fields"][-1]

    def with_last(*fields: Any) -> Any:
        return {**base, "fields": [*base["fields"][:-1], *fields]}

    added = {**number, "name": "Amount__c"}
    after = with_last({**number, "type": ["null", "string"], "doc": "Data:Text"}, added)
    state = CurrentState(spark, str(tmp_path / "lake"), "delta", staging)
    first = event(staging, 1, "CREATE", A, schema="org_account2", Extra__c=1.5)
    state.apply(state.stage(first))
    nothing = dict.fromkeys(("Name", "Industry", "BillingAddress", "Employees"))
    read, schema = tmp_path / "accounts.jsonl", tmp_path / "schema.avsc"
    read.write_text(json.dumps({"Id": A, "Extra__c": "0015", "Amount__c": 101.005, **nothing}))
    schema.write_text(json.dumps(after))
    more = ("--lacking", "BillingAddress", "--event-schema", str(schema), "--decimals")

    with pytest.raises(ConfigurationError, match=r"Amount__c='101.005'.*--decimals"):
        resolved(state, "Account", read, LATER, *more, '{"Amount__c": "decimal(4,2)"}')
    wider = '{"Amount__c": "decimal(18,2)"}'
    assert resolved(state, "Account", read, LATER, *more, wider)["replaced"] == 1

    [row] = state.rows("Account", "Extra__c", "Extra__c__string", "Amount__c")
    assert row == {
        "Extra__c": None,
        "Extra__c__string": "0015",
        "Amount__c": Decimal("101.00"),
    }


NUMBERS = (
    "0.1234565",
    "0.1234575",
    "-0.1234565",
    "0.12345651",
    "0.1234565000000000000000000000000000000000000001",
    "0.12345749",
    "1.2345665E1",
    "1.2345675E1",
    "5.0E-7",
    "15e-7",
    "250.0e-8",
    "-50E-8",
    "2.5",
    "3.50",
    ".5",
    "0.5",
    "1.5",
    "-2.5",
    "25",
    "5",
    "0",
    "1e3",
    "1.5e1",
    "25e-1",
    "0.0000000000000000000000000000000000000250",
    "0.00000000000000000000000000000000000000250",
    "0.000000000000000000000000000000000000005",
    "99999999999999999999999999999999.9999985",
    "12345678901234567890123456789012.3456785",
    "12345678901234567890123456789012345678.5",
    "12345678901234567890123456789012345677.5",
    "99999999999999999999999999999999999999.5",
    "4.5",
    "9.5",
    "1E400",
    "NaN",
)
DECIMALS = ((38, 6), (38, 0), (38, 38), (37, 6), (38, 18), (18, 2), (18, 0), (1, 0), (1, 1))


def test_a_read_rounds_as_events_do(spark: Any) -> None:
    """A number of a read becomes the decimal that the same number of an event becomes."""
    kinds = [FieldType(kind="decimal", precision=most, scale=scale) for most, scale in DECIMALS]
    layout = Layout(
        columns=tuple(
            Column(name=f"c{at}", field="Amount__c", type=kind) for at, kind in enumerate(kinds)
        )
    )
    names = [column.name for column in layout.columns]
    found = filling(layout, {"id": {}, "amount__c": {}}, "Account", filled=names)
    read = spark.createDataFrame([(text,) for text in NUMBERS], "Amount__c string")

    rows = read.selectExpr("Amount__c", *(f"{found.columns[one]} AS {one}" for one in names))

    for row in rows.collect():
        expected = [of_event(row["Amount__c"], kind) for kind in kinds]
        assert [row[name] for name in names] == expected, row["Amount__c"]


def of_event(number: str, kind: FieldType) -> Decimal | None:
    try:
        return fitting_decimal(Decimal(number), kind)
    except ValueError:
        return None


def test_a_read_after_one_that_was_killed_leaves_one_open_interval(
    spark: Any, jars: Jars, staging: Staging, tmp_path: Path
) -> None:
    """A retry reads anew, so what the killed snapshot wrote into the history goes."""
    or_skip(lambda: jars.delta)
    state = CurrentState(spark, str(tmp_path / "lake"), "delta", staging, {"history": True})
    state.apply(
        state.stage(
            event(staging, 1, "CREATE", A, Name="Acme"),
            event(staging, 70, "UPDATE", B, Industry="Shipping"),
        )
    )
    nothing = dict.fromkeys(("Name", "Industry", "BillingAddress", "Employees"))
    read = tmp_path / "accounts.jsonl"
    read.write_text("\n".join(json.dumps({"Id": one, **nothing}) for one in (A, B)))
    more = ("--history", "--lacking", "BillingAddress")
    with pytest.raises(JobKilledError), on_steps(killing("history")):
        resolved(state, "Account", read, LATER, *more)
    assert len(state.rows("Account_history")) == 3

    resolved(state, "Account", read, "2026-11-01T00:05:00Z", *more)

    spans = state.rows("Account_history", "record_id", "valid_from", "valid_to")
    assert [(one["record_id"], one["valid_from"].minute, one["valid_to"]) for one in spans] == [
        (A, 5, None),
        (B, 5, None),
    ]
