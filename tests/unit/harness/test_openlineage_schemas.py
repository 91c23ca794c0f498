"""The check of OpenLineage's events finds what its schemas forbid."""

from __future__ import annotations

from typing import Any

import pytest
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    column_lineage_dataset,
    input_statistics_input_dataset,
    schema_dataset,
)
from openlineage.client.serde import Serde

from tests.harness.openlineage_schemas import errors_of

FIELD = column_lineage_dataset.InputField(namespace="salesforce://00D", name="t", field="City__c")


def event() -> Any:
    columns = column_lineage_dataset.ColumnLineageDatasetFacet(
        fields={"City__c": column_lineage_dataset.Fields(inputFields=[FIELD])}
    )
    counted = input_statistics_input_dataset.InputStatisticsInputDatasetFacet(rowCount=1)
    inner = schema_dataset.SchemaDatasetFacetFields(name="street", type="string")
    outer = schema_dataset.SchemaDatasetFacetFields(name="home", type="struct", fields=[inner])
    schema = schema_dataset.SchemaDatasetFacet(fields=[outer])
    made = RunEvent(
        eventTime="2026-01-01T00:00:00Z",
        eventType=RunState.COMPLETE,
        run=Run(runId="01997000-0000-7000-8000-000000000000"),
        job=Job(namespace="default", name="job"),
        inputs=[InputDataset(namespace="n", name="t", inputFacets={"inputStatistics": counted})],
        outputs=[
            OutputDataset(
                namespace="n", name="o", facets={"columnLineage": columns, "schema": schema}
            )
        ],
    )
    return Serde.to_dict(made)


def test_what_the_client_makes_is_valid() -> None:
    """An event made by the client's classes, also with fields in fields, has no error."""
    assert errors_of(event()) == []


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("eventTime",), "yesterday", "job.eventTime: 'yesterday' is not a 'date-time'"),
        (("run", "runId"), "1", "job.run.runId: '1' is not a 'uuid'"),
        (("eventType",), "DONE", "job.eventType: 'DONE' is not valid"),
        (("outputs", 0, "facets", "schema", "fields", 0, "fields", 0, "name"), 1, "is not valid"),
        (
            ("outputs", 0, "facets", "columnLineage", "fields", "City__c"),
            {},
            "columnLineage.fields.City__c: 'inputFields' is a required property",
        ),
        (("outputs", 0, "facets", "own"), {"_schemaURL": "x"}, "own: x is no schema for this"),
        (("inputs", 0, "inputFacets", "inputStatistics", "rowCount"), "1", "is not valid"),
    ],
)
def test_what_a_schema_forbids_is_found(path: tuple[Any, ...], value: Any, said: str) -> None:
    """A wrong value at any depth is found, and a facet of no known schema."""
    changed = holder = event()
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    assert any(said in one for one in errors_of(changed)), errors_of(changed)


def test_a_facet_belongs_to_its_place() -> None:
    """A facet of inputs is none of a run."""
    changed = event()
    facet = changed["inputs"][0]["inputFacets"]["inputStatistics"]
    changed["run"]["facets"] = {"inputStatistics": facet}
    [error] = errors_of(changed)
    assert "is no schema for this place" in error
