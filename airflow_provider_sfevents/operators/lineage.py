"""Lineage of a landed batch: Airflow's assets, and OpenLineage's facets.

1. Each table that got rows is an asset, told by the one alias `TABLES`; an empty batch tells none.
   A task's own `outlets` stay.
2. OpenLineage's listener (provider `openlineage`) calls a method of the operator after it has
   ended. Counts come from the task's result, fields from the schemas beside the batch. An error is
   logged and never fails a task.
3. Datasets are named as OpenLineage's Spark listener names them, so that both find each dataset
   once: by the location of the table. That of a table of a catalog is in the receipt; without it
   the table is left out.
"""

from __future__ import annotations

import json
import logging
import posixpath
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from airflow.sdk import Asset, AssetAlias

from airflow_provider_sfevents.hooks.staging_access import open_batch
from airflow_provider_sfevents.pubsub.topic_description import fields_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from airflow.providers.openlineage.extractors import OperatorLineage
    from airflow.sdk import Context

    from airflow_provider_sfevents.pubsub.topic_description import FieldDescription
    from airflow_provider_sfevents.staging.batch_folder import BatchFolder
    from airflow_provider_sfevents.staging.manifest import Manifest

log = logging.getLogger(__name__)

TABLES = AssetAlias("sfevents_tables")
"""Alias of all tables that got rows; DAGs can be scheduled by it, or by one table's URL."""

HEADER = ("event_id", "replay_id", "schema_id", "event_time")
"""Columns of each event table that come from the event's envelope."""


class TellsLineage:
    """Mixin for operators whose result is a landed batch."""

    staging: str | None
    landed: Mapping[str, Any] | None = None
    """Result of the batch that the task has landed."""

    def get_openlineage_facets_on_complete(self, _task_instance: Any) -> OperatorLineage | None:
        """Return the datasets of a task that has succeeded, for OpenLineage's listener.

        The listener calls it in a fork of the task's process, which cannot ask Airflow for XComs.
        """
        try:
            return _lineage_of(self.landed, self.staging) if self.landed else None
        except Exception as error:  # noqa: BLE001 - lineage never fails a task
            log.warning("The lineage of the batch is not known: %s", error)
            return None


def tell_tables(context: Context, done: Mapping[str, Any]) -> None:
    """Add an event for each table that got rows.

    :param done: the task's result.
    """
    events = context.get("outlet_events")
    if events is None:
        return
    for table, rows in done["tables"].items():
        if rows:
            extra = {name: done[name] for name in ("batch_id", "topic", "consumer", "org_id")}
            uri = table_uri(table)
            events[TABLES].add(Asset(name=uri, uri=uri), extra={**extra, "rows": rows})


def table_uri(table: str) -> str:
    """Return the URI of a table's asset: its URL, or the name that a catalog knows it by.

    Airflow drops what follows a `#`, so that of a path is encoded.
    """
    return (f"file://{table}" if table.startswith("/") else table).replace("#", "%23")


def dataset_name(table: str) -> tuple[str, str] | None:
    """Return namespace and name of a table's dataset; None for a table of a catalog.

    `s3a://lake/events/Order__e` is `events/Order__e` in `s3://lake`; a local path is a name in
    `file` (OpenLineage, "Dataset Naming").
    """
    if table.startswith("/"):
        return "file", posixpath.normpath(table)
    parts = urlsplit(table)
    if not parts.scheme:
        return None
    if parts.scheme == "file":
        return "file", posixpath.normpath(unquote(parts.path))
    scheme = {"s3a": "s3", "s3n": "s3"}.get(parts.scheme, parts.scheme)
    return f"{scheme}://{parts.netloc}", parts.path.strip("/")


def lineage(
    done: Mapping[str, Any],
    fields: Mapping[str, tuple[FieldDescription, ...]],
    locations: Mapping[str, str],
) -> OperatorLineage:
    """Return the datasets of a landed batch: the topic, and each table that got rows.

    :param done: the task's result.
    :param fields: by event type, which is the last part of its table's name.
    :param locations: URLs of tables of a catalog.
    """
    from airflow.providers.common.compat.openlineage.facet import InputDataset, OutputDataset
    from airflow.providers.openlineage.extractors import OperatorLineage

    topic = (f"salesforce://{done['org_id']}", str(done["topic"]).strip("/"))
    outputs = []
    for table, rows in done["tables"].items():
        named = dataset_name(locations.get(table, table))
        if named is None or not rows:
            continue
        own = fields.get(re.split(r"[/.]", table)[-1], ())
        facets = {"schema": _schema(own), "columnLineage": _columns(own, *topic)}
        if table in locations:
            facets["symlinks"] = _name_in_catalog(table)
        outputs.append(
            OutputDataset(
                namespace=named[0], name=named[1], facets=facets, outputFacets=_written(rows)
            )
        )
    every = {one.name: one for found in fields.values() for one in found}
    source = InputDataset(
        namespace=topic[0],
        name=topic[1],
        facets={"schema": _schema(every.values())},
        inputFacets=_input_facets(done),
    )
    return OperatorLineage(
        inputs=[source], outputs=outputs, run_facets={"sfevents_batch": _batch_facet(done)}
    )


def _schema(fields: Iterable[FieldDescription]) -> Any:
    from airflow.providers.common.compat.openlineage.facet import (
        SchemaDatasetFacet,
        SchemaDatasetFacetFields,
    )

    return SchemaDatasetFacet(
        fields=[SchemaDatasetFacetFields(name=one.name, type=one.type) for one in fields]
    )


def _columns(fields: Iterable[FieldDescription], namespace: str, topic: str) -> Any:
    """Return the lineage of a table's columns: each has one field of the topic."""
    from airflow.providers.common.compat.openlineage.facet import (
        ColumnLineageDatasetFacet,
        Fields,
        InputField,
    )
    from openlineage.client.facet_v2 import column_lineage_dataset

    decoded = column_lineage_dataset.Transformation(
        type="DIRECT", subtype="IDENTITY", description="decoded", masking=False
    )

    def line(column: str) -> Fields:
        field = InputField(namespace=namespace, name=topic, field=column, transformations=[decoded])
        return Fields(inputFields=[field])

    names = (*(one.name for one in fields), *HEADER)
    return ColumnLineageDatasetFacet(fields={name: line(name) for name in names})


def _name_in_catalog(table: str) -> Any:
    from airflow.providers.common.compat.openlineage.facet import Identifier, SymlinksDatasetFacet

    catalog, _, name = table.partition(".")
    return SymlinksDatasetFacet(
        identifiers=[Identifier(namespace=catalog, name=name, type="TABLE")]
    )


def _written(rows: int) -> dict[str, Any]:
    from airflow.providers.common.compat.openlineage.facet import (
        OutputStatisticsOutputDatasetFacet,
    )

    return {"outputStatistics": OutputStatisticsOutputDatasetFacet(rowCount=rows)}


def _input_facets(done: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of the batch, and the results of its checks."""
    from openlineage.client.facet_v2 import (
        data_quality_assertions_dataset,
        input_statistics_input_dataset,
    )

    def check(name: str, count: int) -> Any:
        return data_quality_assertions_dataset.Assertion(assertion=name, success=not count)

    return {
        "inputStatistics": input_statistics_input_dataset.InputStatisticsInputDatasetFacet(
            rowCount=done["events"], size=done["bytes"]
        ),
        "dataQualityAssertions": data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet(
            assertions=[
                check("every_event_decodes", done["quarantined"]),
                check("no_loss_window", len(done["losses"])),
            ]
        ),
    }


def _batch_facet(done: Mapping[str, Any]) -> Any:
    """Return the facet of the run that describes the batch."""
    from airflow.providers.common.compat.openlineage.facet import RunFacet

    names = ("batch_id", "batch_number", "consumer", "events", "quarantined", "duplicates")
    return RunFacet().with_additional_properties(**{name: done[name] for name in names})


def _lineage_of(done: Mapping[str, Any], staging: str | None) -> OperatorLineage:
    """Return the datasets of a landed batch, with what is known as far as it is still staged."""
    _, folder, manifest = open_batch(done["manifest"], staging)
    receipt = folder.read_receipt()
    return lineage(done, _fields(folder, manifest), receipt.locations if receipt else {})


def _fields(
    folder: BatchFolder, manifest: Manifest | None
) -> dict[str, tuple[FieldDescription, ...]]:
    """Read the fields of a batch's events by event type."""
    found: dict[str, tuple[FieldDescription, ...]] = {}
    for schema_id in manifest.schemas if manifest else ():
        if text := folder.read_schema(schema_id):
            found[str(json.loads(text)["name"]).rpartition(".")[2]] = fields_of(text)
    return found
