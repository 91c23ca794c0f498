"""Entity snapshot: describe an entity, choose fields, read records, note when the read began.

A read counts only when all of it is there.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.pubsub.auth.session import long_id
from airflow_provider_sfevents.pubsub.rest import bulk_query
from airflow_provider_sfevents.pubsub.rest.field_selection import FieldSelection, select
from airflow_provider_sfevents.staging.snapshot_files import (
    DELETED,
    SCHEMA,
    ReadFolder,
    ReadManifest,
    read_id,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from upath import UPath

    from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls
    from airflow_provider_sfevents.staging.snapshot_files import Writer

log = logging.getLogger(__name__)

ReadBy = Literal["auto", "bulk", "rest"]
READ_BY: tuple[str, ...] = get_args(ReadBy)

_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_ID = re.compile(r"[0-9A-Za-z]{15}([0-9A-Za-z]{3})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotRequest:
    """Records to be read.

    :param ids: of records; None: all of the entity.
    :param read_by: `auto`: all records by the Bulk API, single ones over REST.
    """

    entity: str
    ids: tuple[str, ...] | None = None
    read_by: str = "auto"

    def __post_init__(self) -> None:
        check_entity(self.entity)
        check_way(self.read_by, whole=self.ids is None)
        for one in self.ids or ():
            if not _ID.fullmatch(one):
                raise ConfigurationError(
                    f"{one!r} is no record id of {self.entity}: an id has 15 or 18 letters and "
                    "digits."
                )

    @property
    def by_bulk(self) -> bool:
        return self.ids is None and self.read_by != "rest"


def check_entity(entity: str) -> None:
    """Check the name of an object.

    :raises ConfigurationError: it cannot be one.
    """
    if not _NAME.fullmatch(entity):
        raise ConfigurationError(
            f"entity={entity!r} is no object's API name; give one such as Account or Invoice__c."
        )


def check_way(read_by: str, *, whole: bool) -> None:
    """Check `read_by`.

    :param whole: all records of the object are read.
    :raises ConfigurationError: unknown, or not fit for single records.
    """
    if read_by not in READ_BY:
        raise ConfigurationError(f"read_by={read_by!r} is not known; give {' or '.join(READ_BY)}.")
    if read_by == "bulk" and not whole:
        raise ConfigurationError(
            "read_by='bulk' reads an object as a whole; single records (record_ids) are read with "
            "read_by='rest'."
        )


async def read_records(
    rest: RestCalls, event_schema: str, wanted: SnapshotRequest, root: UPath
) -> tuple[ReadFolder, ReadManifest]:
    """Read records into the staging area.

    :param event_schema: of the entity's change events, Avro as JSON.
    :param root: of the staging area.
    :raises ConfigurationError: no such object, or it cannot be read by this user or in this way.
    :raises TransportError: the connection broke; nothing of the read counts.
    """
    entity = wanted.entity
    session = await rest.session()
    described, read_at = await rest.get(f"/sobjects/{entity}/describe", f"Describing {entity}")
    chosen = select(described, event_schema)
    if chosen.unseen:
        log.warning(
            "The connection's user cannot read these fields of %s, which its change events have: "
            "%s. They are null in the rows that are read.",
            entity,
            ", ".join(chosen.unseen),
        )
    name = read_id(read_at, secrets.token_hex(4))
    folder = ReadFolder.new(root, session.org_id, entity, name)
    records, gone = await _into(folder, rest, chosen, wanted)
    folder.write(SCHEMA, event_schema.encode())
    folder.write(DELETED, "".join(f"{one}\n" for one in gone).encode())
    manifest = ReadManifest(
        org_id=session.org_id,
        entity=entity,
        read_id=name,
        read_at=read_at.isoformat(),
        whole=wanted.ids is None,
        read_by="bulk" if wanted.by_bulk else "rest",
        records_format="csv" if wanted.by_bulk else "json",
        fields=chosen.fields,
        unseen=chosen.unseen,
        records=records,
        deleted=len(gone),
    )
    folder.finish(manifest)
    log.info(
        "Read %s of %s, as of %s%s.",
        counted(records, "record"),
        entity,
        manifest.read_at,
        "" if manifest.whole else f"; {len(gone)} of those asked for are gone",
    )
    return folder, manifest


async def _into(
    folder: ReadFolder, rest: RestCalls, chosen: FieldSelection, wanted: SnapshotRequest
) -> tuple[int, list[str]]:
    """Read the records; return their number, and the requested ids that were not found."""
    if wanted.by_bulk:
        return await bulk_query.read_job(rest, chosen.entity, chosen.query(), folder), []
    if wanted.ids is None:
        return len(await read_pages(rest, chosen.entity, chosen.queries(None), folder)), []
    asked = [long_id(one) for one in wanted.ids]
    found = await read_pages(rest, chosen.entity, chosen.queries(asked), folder)
    return len(found), sorted(set(asked) - found)


async def read_pages(
    rest: RestCalls, entity: str, queries: Iterable[str], folder: ReadFolder
) -> set[str]:
    """Read the queries' records over REST, page by page, into one file of JSON lines.

    :return: ids of the records.
    :raises TransportError: the connection broke, or fewer records came than the org reported.
    """
    found: set[str] = set()
    with folder.part(1, "jsonl") as file:
        for query in queries:
            found |= await _read(rest, entity, query, file)
    return found


async def _read(rest: RestCalls, entity: str, query: str, file: Writer) -> set[str]:
    doing = f"Reading {entity} over REST"
    page, _ = await rest.get("/query", doing, {"q": query})
    promised = int(page["totalSize"])
    found = _written(page["records"], file)
    while not page["done"]:
        page, _ = await rest.get(page["nextRecordsUrl"], doing)
        found |= _written(page["records"], file)
    if len(found) != promised:
        raise TransportError(
            f"{doing}: {counted(promised, 'record')} promised, and {len(found)} came. Nothing of "
            "the read is used; run the task again."
        )
    return found


def _written(records: list[dict[str, Any]], file: Writer) -> set[str]:
    for record in records:
        values = {name: value for name, value in record.items() if name != "attributes"}
        file.write(json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return {record["Id"] for record in records}
