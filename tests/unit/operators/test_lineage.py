"""Names of assets and datasets, and the lineage of a batch."""

from __future__ import annotations

from typing import Any

import pytest
from airflow.sdk import DAG, Asset

from airflow_provider_sfevents.operators.lineage import (
    TABLES,
    TellsLineage,
    dataset_name,
    lineage,
    table_uri,
    tell_tables,
)
from airflow_provider_sfevents.operators.sfevents import SfEventsToSparkOperator
from airflow_provider_sfevents.pubsub.topic_description import FieldDescription

DONE = {
    "org_id": "00D",
    "topic": "/event/Order__e",
    "consumer": "orders",
    "batch_id": "e-1",
    "batch_number": 1,
    "events": 8,
    "bytes": 80,
    "quarantined": 2,
    "duplicates": 1,
    "losses": [],
    "tables": {"s3a://lake/events/Order__e": 3, "lake.sales.Other__e": 2, "/lake/Empty__e": 0},
}


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ("/lake/Order__e", ("file", "/lake/Order__e")),
        ("file:///lake/Order%20s", ("file", "/lake/Order s")),
        ("s3a://lake/events/Order__e", ("s3://lake", "events/Order__e")),
        ("gs://lake/events/Order__e", ("gs://lake", "events/Order__e")),
        ("abfss://c@a.dfs.core.windows.net/x", ("abfss://c@a.dfs.core.windows.net", "x")),
        ("lake.sales.Order__e", None),
    ],
)
def test_datasets_have_the_names_of_openlineage(table: str, named: tuple[str, str] | None) -> None:
    """A table by path is named as OpenLineage's Spark listener names it."""
    assert dataset_name(table) == named


def test_assets_are_named_by_the_table() -> None:
    """A local table has a file URL; others keep their URL or their catalog's name."""
    assert [table_uri(one) for one in ("/lake/A", "s3a://lake/A", "lake.sales.A")] == [
        "file:///lake/A",
        "s3a://lake/A",
        "lake.sales.A",
    ]


def test_a_table_in_a_folder_with_a_hash_has_an_asset_of_its_own() -> None:
    """Airflow drops what follows a # in a URI, so a # of a path is encoded."""
    uris = {
        Asset(table_uri(f"{lake}/{name}")).uri for lake in ("/a#b", "s3a://a#b") for name in "AB"
    }
    assert uris == {
        "file:///a%23b/A",
        "file:///a%23b/B",
        "s3a://a%23b/A",
        "s3a://a%23b/B",
    }


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [({}, [Asset("of_dag")]), ({"outlets": Asset("a")}, [Asset("a")]), ({"outlets": []}, [])],
    ids=["of default_args", "of the task", "none"],
)
def test_the_users_outlets_stay(arguments: dict[str, Any], kept: list[Asset]) -> None:
    """The alias of the tables is added to what the user gives, for the DAG or the task."""
    with DAG("orders", schedule=None, default_args={"outlets": [Asset("of_dag")]}):
        task = SfEventsToSparkOperator(
            task_id="land", topic="/event/Order__e", table="/lake", **arguments
        )
    assert task.outlets == [*kept, TABLES]


class _Alias:
    """Keeps the events that an alias gets."""

    def __init__(self) -> None:
        self.added: list[tuple[Asset, dict[str, Any]]] = []

    def add(self, asset: Asset, extra: dict[str, Any]) -> None:
        self.added.append((asset, extra))


def test_tables_without_rows_are_not_told() -> None:
    """Each table with rows gets one event with the batch and its rows."""
    alias = _Alias()
    context: Any = {"outlet_events": {TABLES: alias}}

    tell_tables(context, DONE)

    assert [(asset.name, asset.uri, extra["rows"]) for asset, extra in alias.added] == [
        ("s3a://lake/events/Order__e", "s3a://lake/events/Order__e", 3),
        ("lake.sales.Other__e", "lake.sales.Other__e", 2),
    ]
    assert alias.added[0][1]["batch_id"] == "e-1"


def test_lineage_of_a_batch() -> None:
    """The topic is the input; tables with rows are outputs, with columns and counts."""
    field = FieldDescription(name="City__c", type="string", salesforce_type="Text", nullable=True)

    found = lineage(DONE, {"Order__e": (field,)}, {})

    [source] = found.inputs
    assert (source.namespace, source.name) == ("salesforce://00D", "event/Order__e")
    [table] = found.outputs
    assert (table.namespace, table.name) == ("s3://lake", "events/Order__e")
    assert table.outputFacets["outputStatistics"].rowCount == 3
    assert [one.name for one in table.facets["schema"].fields] == ["City__c"]
    assert {"City__c", "event_id"} <= table.facets["columnLineage"].fields.keys()
    batch = found.run_facets["sfevents_batch"]
    assert (batch.batch_id, batch.events, batch.duplicates) == ("e-1", 8, 1)
    assert source.inputFacets["inputStatistics"].rowCount == 8
    checks = source.inputFacets["dataQualityAssertions"].assertions
    assert [(one.assertion, one.success) for one in checks] == [
        ("every_event_decodes", False),
        ("no_loss_window", True),
    ]


def test_a_table_of_a_catalog_is_named_by_its_location() -> None:
    """Its name in the catalog is another name of the same dataset, with the type's columns."""
    field = FieldDescription(name="City__c", type="string", salesforce_type="Text", nullable=True)
    locations = {"lake.sales.Other__e": "s3a://lake/warehouse/sales/Other__e"}

    _, table = lineage(DONE, {"Other__e": (field,)}, locations).outputs

    assert (table.namespace, table.name) == ("s3://lake", "warehouse/sales/Other__e")
    [name] = table.facets["symlinks"].identifiers
    assert (name.namespace, name.name, name.type) == ("lake", "sales.Other__e", "TABLE")
    assert [one.name for one in table.facets["schema"].fields] == ["City__c"]


def test_an_error_fails_no_task() -> None:
    """A batch whose lineage cannot be made has none."""
    task = TellsLineage()
    assert task.get_openlineage_facets_on_complete(None) is None
    task.landed = {"manifest": None}
    assert task.get_openlineage_facets_on_complete(None) is None
