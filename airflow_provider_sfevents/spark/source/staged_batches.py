"""Staged batches as the source `sfevents` plans them: manifests, schemas, files, partitions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import StagingError
from airflow_provider_sfevents.spark.landing.splits import splits_of
from airflow_provider_sfevents.spark.schema import envelope
from airflow_provider_sfevents.spark.source.columns import (
    DecodingPlan,
    FixedColumns,
    decoding_plan,
    fixed_columns,
)
from airflow_provider_sfevents.spark.source.staged_files import DAMAGED
from airflow_provider_sfevents.spark.source.staged_rows import StagedFile
from airflow_provider_sfevents.spark.source.topic_listing import manifest_url
from airflow_provider_sfevents.spark.stores.unreadable_files import naming
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.manifest import Manifest, Receipt

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from airflow_provider_sfevents.spark.source.offsets import Offset
    from airflow_provider_sfevents.spark.source.source_options import SourceOptions
    from airflow_provider_sfevents.spark.source.staged_files import StagedFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """Input of one task of the executors."""

    files: tuple[StagedFile, ...]
    plan: DecodingPlan | None


def load_columns(
    files: StagedFiles, options: SourceOptions, batches: Iterable[Offset]
) -> FixedColumns:
    """Decide the columns of a query that is being loaded.

    :param batches: all staged ones, oldest first.
    :raises ConfigurationError: no staged batch has events of this type.
    """
    rescues = options.later_fields == "rescue"
    if not options.event_type:
        return FixedColumns(event_type="")
    manifests = _manifests(files, options.folder, batches)
    first: dict[str, int] = {}
    for place, manifest in enumerate(manifests):
        for schema_id in manifest.schemas:
            first.setdefault(schema_id, place)
    texts, _ = _schemas(files, options.folder, manifests)
    by_batch = [
        {one: texts[one] for one in manifest.schemas if first[one] == place and one in texts}
        for place, manifest in enumerate(manifests)
    ]

    def count_events(place: int) -> dict[str, int]:
        return _events_by_schema(files, options.folder, manifests[place])

    return fixed_columns(options.event_type, by_batch, count_events, rescues=rescues)


def plan_tasks(
    files: StagedFiles, options: SourceOptions, fixed: FixedColumns, batches: Sequence[Offset]
) -> list[ReadTask]:
    """Plan the reading of batches: consecutive files in tasks of a worthwhile size.

    :raises StagingError: a batch is not here as it has landed.
    :raises ConfigurationError: a batch has later fields, and they are not rescued.
    """
    manifests = _manifests(files, options.folder, batches)
    _refuse_shorter(files, options.folder, manifests)
    plan = None
    if fixed.event_type:
        schemas, unknown = _schemas(files, options.folder, manifests)
        plan = decoding_plan(fixed, schemas, unknown)
    read = set(plan.names) if plan else None
    of_path = {}
    parts = []
    for manifest in manifests:
        folder = _folder(options.folder, manifest)
        for part in manifest.parts:
            if read is None or read.intersection(part.schemas):
                url = f"{folder}/{part.path}"
                parts.append(replace(part, path=url))
                of_path[url] = StagedFile(
                    url=url,
                    events=part.events,
                    org_id=manifest.org_id,
                    topic=manifest.topic,
                    batch_id=manifest.batch_id,
                    batch_number=manifest.batch_number,
                    payload_format=manifest.payload_format,
                )
    return [
        ReadTask(files=tuple(of_path[part.path] for part in split.parts), plan=plan)
        for split in splits_of(parts)
    ]


def _folder(topic_folder: str, manifest: Manifest) -> str:
    return f"{topic_folder}/{layout.batch_folder(manifest.epoch, manifest.batch_number)}"


def _manifests(files: StagedFiles, folder: str, batches: Iterable[Offset]) -> list[Manifest]:
    urls = [manifest_url(folder, one.epoch, one.batch_number) for one in batches]
    texts = files.read_texts(urls)
    for url in urls:
        if url not in texts:
            raise StagingError(
                f"{url} was removed while the query was being planned: the batch was swept. Start "
                "the query again; its error then has the remedy."
            )
    return [Manifest.from_json(texts[url], url) for url in urls]


def _refuse_shorter(files: StagedFiles, folder: str, manifests: Iterable[Manifest]) -> None:
    """Refuse a batch of which a longer form has landed from another staging area.

    :raises StagingError: there is one.
    """
    of_url = {f"{_folder(folder, one)}/{layout.RECEIPT}": one for one in manifests}
    for url, text in files.read_texts(of_url).items():
        manifest, receipt = of_url[url], Receipt.from_json(text, url)
        if receipt.events > manifest.events:
            raise StagingError(
                f"Batch {manifest.batch_id} has landed from another staging area with "
                f"{counted(receipt.events, 'event')}; {url.rpartition('/')[0]} has "
                f"{manifest.events} of them. Read this batch from the event table, remove its "
                "folder here, and start the query with a new checkpoint, which begins after it. "
                "Give all workers one staging area."
            )


def _schemas(
    files: StagedFiles, folder: str, manifests: Iterable[Manifest]
) -> tuple[dict[str, str], dict[str, str]]:
    """Read each schema of these batches once; and the reasons for those that do not exist.

    An id always means the same schema. If both files of an id exist, the schema counts.
    """
    places: dict[str, str] = {}
    for manifest in manifests:
        for schema_id in manifest.schemas:
            places.setdefault(schema_id, _folder(folder, manifest))
    there = {one: f"{place}/{layout.schema_name(one)}" for one, place in places.items()}
    instead = {one: f"{place}/{layout.unknown_schema_name(one)}" for one, place in places.items()}
    texts = files.read_texts(there.values())
    reasons = files.read_texts(instead[one] for one, url in there.items() if url not in texts)
    schemas = {one: texts[url] for one, url in there.items() if url in texts}
    unknown = {
        one: " ".join(reasons[url].split()) for one, url in instead.items() if url in reasons
    }
    for schema_id, url in there.items():
        if schema_id not in schemas and schema_id not in unknown:
            raise StagingError(
                f"The schema file {url} is missing, so that its events cannot be decoded. Restore "
                "it; or leave event_type out and read raw payloads."
            )
    return schemas, unknown


def _events_by_schema(files: StagedFiles, folder: str, manifest: Manifest) -> dict[str, int]:
    counts: dict[str, int] = {}
    for part in manifest.parts:
        url = f"{_folder(folder, manifest)}/{part.path}"
        with files.open(url) as file, naming(url, DAMAGED):
            column = pq.read_table(file, columns=[envelope.SCHEMA_ID]).column(0)
        for found in pc.value_counts(column).to_pylist():
            counts[found["values"]] = counts.get(found["values"], 0) + found["counts"]
    return counts
