"""The table `_schemas`: every schema seen, as JSON lines beside the tables, `_schemas/<batch id>.json` for each batch that brought one.

Any reader of JSON reads the folder as a table. One form for all table formats: it is small, and no batch waits for it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.schema_history import KEY, TABLE, new_schemas

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_sfevents.spark.hadoop import Files
    from airflow_provider_sfevents.spark.schema_history import Key, SeenSchema
    from airflow_provider_sfevents.spark.staged import StagedBatch


class SchemaRecords:
    """:param root: of the tables."""

    def __init__(self, files: Files, root: str) -> None:
        self._files = files
        self._folder = f"{root}/{TABLE}"

    def new(self, batch: StagedBatch) -> tuple[SeenSchema, ...]:
        """Schemas that no other batch had."""
        return new_schemas(batch.manifest, batch.plan, set(self._known(batch.manifest.batch_id)))

    def keep(self, seen: tuple[SeenSchema, ...], batch_id: str, temporary: str) -> None:
        """Write a batch's own, in place of what was there of it.

        :param temporary: URL in the attempt's folder.
        """
        url = f"{self._folder}/{batch_id}.json"
        if seen:
            self._files.make_folder(self._folder)
            lines = (json.dumps(_row(one)) for one in seen)
            self._files.write_text(url, "\n".join(lines) + "\n", temporary)
        elif self._files.exists(url):
            self._files.remove(url)

    def _known(self, batch_id: str) -> Iterator[Key]:
        for name in self._files.names(self._folder):
            if name.endswith(".json") and name != f"{batch_id}.json":
                url = f"{self._folder}/{name}"
                yield from _keys(self._files.read_text(url), url)


def _row(seen: SeenSchema) -> dict[str, object]:
    return {
        "org_id": seen.org_id,
        "event_type": seen.event_type,
        "schema_id": seen.schema_id,
        "schema_json": seen.schema_json,
        "event_topic": seen.event_topic,
        "batch_id": seen.batch_id,
        "batch_sequence": seen.batch_sequence,
        "first_seen_at": seen.first_seen_at.isoformat(),
    }


def _keys(text: str, where: str) -> Iterator[Key]:
    try:
        for line in text.splitlines():
            row = json.loads(line)
            org_id, schema_id, schema_json = (str(row[name]) for name in KEY)
            yield org_id, schema_id, schema_json
    except (KeyError, TypeError, ValueError) as error:
        raise StagingError(
            f"{where} does not hold rows of the table of schemas: {error}. Delete it; landing its batch again writes it anew."
        ) from error
