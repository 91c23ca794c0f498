"""Lineage of a landed batch: Airflow's assets, and OpenLineage's facets.

1. Each table that got rows is an asset, told by the one alias `TABLES`; an empty batch tells none.
   A task's own `outlets` stay.
2. OpenLineage's listener (provider `openlineage`) calls a method of the operator after it has
   ended. Counts come from the task's result, fields from the schemas beside the batch. An error is
   logged and never fails a task.
3. Datasets are named as OpenLineage's Spark listener names tables by path, so that both find each
   dataset once. Tables of a catalog are named by their catalog there, and are left out here.
"""

from __future__ import annotations

import json
import logging
import posixpath
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
            return lineage(self.landed, _fields(self.landed, self.staging)) if self.landed else None
        except Exception as error:  # noqa: BLE001 - lineage never fails a task
            log.warning("The lineage of the batch is not known: %s", error)
            return None


def with_tables(outlets: Any) -> list[Any]:
    """Return a task's outlets, and the alias of its tables.

    :param outlets: as given to the operator.
    """
    given = outlets if isinstance(outlets, list | tuple) else [outlets] if outlets else []
    return [*given, TABLES]


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
    """Return the URI of a table's asset: its URL, or the name that a catalog knows it by."""
    return f"file://{table}" if table.startswith("/") else table


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
    done: Mapping[str, Any], fields: Mapping[str, tuple[FieldDescription, ...]]
) -> OperatorLineage:
    """Return the datasets of a landed batch: the topic, and each table that got rows.

    :param done: the task's result.
    :param fields: by event type, which is the last part of its table's name.
    """
    from airflow.providers.common.compat.openlineage.facet import (
        ColumnLineageDatasetFacet,
        Dataset,
        Fields,
        InputField,
        OutputDataset,
        OutputStatisticsOutputDatasetFacet,
        SchemaDatasetFacet,
        SchemaDatasetFacetFields,
    )
    from airflow.providers.openlineage.extractors import OperatorLineage

    def schema(of: Iterable[FieldDescription]) -> SchemaDatasetFacet:
        return SchemaDatasetFacet(
            fields=[SchemaDatasetFacetFields(name=one.name, type=one.type) for one in of]
        )

    namespace, topic = f"salesforce://{done['org_id']}", str(done["topic"]).strip("/")

    def line(column: str) -> Fields:
        return Fields(
            inputFields=[InputField(namespace=namespace, name=topic, field=column)],
            transformationDescription="decoded",
            transformationType="IDENTITY",
        )

    outputs = []
    for table, rows in done["tables"].items():
        named = dataset_name(table)
        if named is None or not rows:
            continue
        own = fields.get(table.rpartition("/")[2], ())
        columns = ColumnLineageDatasetFacet(
            fields={column: line(column) for column in (*(one.name for one in own), *HEADER)}
        )
        counts = OutputStatisticsOutputDatasetFacet(rowCount=rows)
        outputs.append(
            OutputDataset(
                namespace=named[0],
                name=named[1],
                facets={"schema": schema(own), "columnLineage": columns},
                outputFacets={"outputStatistics": counts},
            )
        )
    every = {one.name: one for found in fields.values() for one in found}
    source = Dataset(namespace=namespace, name=topic, facets={"schema": schema(every.values())})
    return OperatorLineage(inputs=[source], outputs=outputs)


def _fields(
    done: Mapping[str, Any], staging: str | None
) -> dict[str, tuple[FieldDescription, ...]]:
    """Read the fields of a batch's events by event type, as far as it is still staged."""
    if not done.get("manifest"):
        return {}
    _, folder, manifest = open_batch(done["manifest"], staging)
    found: dict[str, tuple[FieldDescription, ...]] = {}
    for schema_id in manifest.schemas if manifest else ():
        if text := folder.read_schema(schema_id):
            found[str(json.loads(text)["name"]).rpartition(".")[2]] = fields_of(text)
    return found
