"""Records over REST, page by page, as JSON lines."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import TransportError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.pubsub.rest.calls import RestCalls
    from airflow_provider_sfevents.staging.reads import ReadFolder, Writer


async def read_pages(
    rest: RestCalls, entity: str, queries: Iterable[str], folder: ReadFolder
) -> set[str]:
    """Read what the queries find into one file of the folder.

    :return: ids of the records.
    :raises TransportError: the org broke off, or sent fewer records than it said.
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
            f"{doing}: {counted(promised, 'record')} promised, and {len(found)} came. Nothing of the read is used; run the task again."
        )
    return found


def _written(records: list[dict[str, Any]], file: Writer) -> set[str]:
    for record in records:
        values = {name: value for name, value in record.items() if name != "attributes"}
        file.write(json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return {record["Id"] for record in records}
