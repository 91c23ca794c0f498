"""Query job of the Bulk API 2.0: created, waited for, and streamed part by part as CSV.

https://developer.salesforce.com/docs/atlas.en-us.api_asynch.meta/api_asynch/queries.htm
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    QuotaExceededError,
    SfEventsError,
    TransportError,
)
from airflow_provider_sfevents.pubsub.rest.rest_calls import TRIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.pubsub.rest.rest_calls import RestCalls
    from airflow_provider_sfevents.staging.snapshot_files import ReadFolder

log = logging.getLogger(__name__)

PART_RECORDS = 100_000
"""Records in a part: some 10 MB, which a broken connection costs at most."""

LONGEST_POLL_SECONDS = 15.0
_FIRST_POLL_SECONDS = 0.5
_WAITING = frozenset({"UploadComplete", "InProgress"})


async def read_job(
    rest: RestCalls, entity: str, query: str, folder: ReadFolder, part_records: int = PART_RECORDS
) -> int:
    """Read a query's records into files of the folder; the job is removed from the org afterwards.

    :param part_records: the most records of one file.
    :return: number of records.
    :raises ConfigurationError: the job failed; with its reason.
    :raises TransportError: the connection broke, or fewer records came than the job reported.
    """
    body = {"operation": "query", "query": query, "contentType": "CSV"}
    asked = {**body, "columnDelimiter": "COMMA", "lineEnding": "LF"}
    doing = f"Reading {entity} by the Bulk API"
    job = await rest.post("/jobs/query", doing, asked)
    path = f"/jobs/query/{job['id']}"
    try:
        done = await _finished(rest, path, doing)
        records = await _results(rest, path, doing, folder, part_records)
    finally:
        # Salesforce removes jobs after seven days, so a failed removal is no error.
        with suppress(SfEventsError):
            await rest.delete(path, f"Removing job {job['id']}")
    promised = int(done["numberRecordsProcessed"])
    if records != promised:
        raise TransportError(
            f"{doing}: job {job['id']} found {counted(promised, 'record')}, and {records} came. "
            "Nothing of the read is used; run the task again."
        )
    return records


async def _finished(rest: RestCalls, path: str, doing: str) -> dict[str, Any]:
    pause = _FIRST_POLL_SECONDS
    while True:
        job, _ = await rest.get(path, doing)
        if job["state"] == "JobComplete":
            return dict(job)
        if job["state"] not in _WAITING:
            said = str(job.get("errorMessage") or job["state"]).rstrip(".")
            raise ConfigurationError(
                f"{doing}: job {job['id']} ended as {job['state']}: {said}. If the Bulk API does "
                "not have this object, read it with read_by='rest'."
            )
        log.info("%s: %s.", doing, job["state"])
        await asyncio.sleep(pause)
        pause = min(2 * pause, LONGEST_POLL_SECONDS)


async def _results(
    rest: RestCalls, path: str, doing: str, folder: ReadFolder, part_records: int
) -> int:
    records, number, locator = 0, 0, ""
    while locator != "null":
        number += 1
        params = {"maxRecords": str(part_records)} | ({"locator": locator} if locator else {})
        came, locator = await _part(rest, path, doing, params, folder, number)
        records += came
        log.info("%s: %s.", doing, counted(records, "record"))
    return records


async def _part(
    rest: RestCalls,
    path: str,
    doing: str,
    params: dict[str, str],
    folder: ReadFolder,
    number: int,
) -> tuple[int, str]:
    """Read one part into a file of its own; after a broken connection, from its beginning.

    Returns its number of records and the locator of the next part.

    :raises TransportError: the connection broke again and again, or other records came than the
        answer's header says: a proxy may end a body early without an error.
    """
    for turn in range(TRIES):
        try:
            async with rest.streamed("GET", f"{path}/results", doing, params=params) as answer:
                count = CsvCount()
                with folder.part(number, "csv") as file:
                    async for chunk in answer.aiter_bytes():
                        file.write(chunk)
                        count.add(chunk)
                records = _whole(answer.headers, count, doing)
                return records, answer.headers.get("sforce-locator", "null")
        except QuotaExceededError:
            raise
        except TransportError:
            if turn == TRIES - 1:
                raise
            await rest.pause(turn)
    raise AssertionError("the last try raises")


class CsvCount:
    """Number of whole records of a CSV text with a header, counted as it comes."""

    def __init__(self) -> None:
        self._ends = 0
        self._is_quoted = False
        self._last = b"\n"

    def add(self, chunk: bytes) -> None:
        for at, piece in enumerate(chunk.split(b'"')):
            if at:
                self._is_quoted = not self._is_quoted
            if not self._is_quoted:
                self._ends += piece.count(b"\n")
        self._last = chunk[-1:] or self._last

    @property
    def records(self) -> int:
        """Number of records; one that ends within quotes does not count."""
        is_open = self._last != b"\n" and not self._is_quoted
        return max(0, self._ends + is_open - 1)


def _whole(headers: Mapping[str, str], count: CsvCount, doing: str) -> int:
    """Number of records of a part, which has all that the answer's header says.

    :raises TransportError: it has not, or there is no such header.
    """
    try:
        records = int(headers["sforce-numberofrecords"])
    except (KeyError, ValueError) as error:
        raise TransportError(
            f"{doing}: the answer has no header Sforce-NumberOfRecords, so that it cannot be known "
            "to be whole. Is there a proxy that removes it?"
        ) from error
    if count.records != records:
        raise TransportError(
            f"{doing}: of a part of {counted(records, 'record')} {count.records} came. Does a "
            "proxy change or cut answers? Nothing of the read is used."
        )
    return records
