"""Bulk API 2.0 query jobs: create, poll, and read the result as CSV in parts."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import re
import threading
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from starlette.responses import Response
from starlette.routing import Route

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus.payload_codec import milliseconds
from airflow_provider_sfevents.emulator.http.rest.soql_queries import run
from airflow_provider_sfevents.emulator.org.objects import field_values
from airflow_provider_sfevents.emulator.org.objects.object_definitions import (
    PERSON_NAMES,
    DeclaredField,
)
from airflow_provider_sfevents.emulator.org.queries import soql
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError, not_found
from airflow_provider_sfevents.emulator.org.records import record_views

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.http.rest.rest_requests import RestGate, RestRequest
    from airflow_provider_sfevents.emulator.org.database import Database
    from airflow_provider_sfevents.emulator.org.queries.record_selection import QueryResult

_BASE = "/services/data/v{version}/jobs/query"
_DELIMITERS = {
    "BACKQUOTE": "`",
    "CARET": "^",
    "COMMA": ",",
    "PIPE": "|",
    "SEMICOLON": ";",
    "TAB": "\t",
}
_ENDINGS = {"LF": "\n", "CRLF": "\r\n"}
_COUNT = re.compile("[1-9][0-9]{0,9}")
_MOST_IN_A_PART = 50_000
_MOST_JOBS = 100  # each job keeps its result


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkJob:
    """A query job.

    :param polls: number of status requests left that report progress.
    """

    id: str
    operation: str
    version: str
    user_id: str
    created_at: int
    delimiter: str
    ending: str
    found: QueryResult
    polls: int
    state: str = "UploadComplete"


class BulkQueryResource:
    """Bulk query routes of one org.

    A job finds the records that exist when it is created; the oldest jobs are dropped.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._jobs: dict[str, BulkJob] = {}
        self._made = 0
        self._lock = threading.Lock()

    def routes(self, gate: RestGate) -> list[Route]:
        def route(path: str, answer: Any, method: str) -> Route:
            return Route(f"{_BASE}{path}", gate.serving(answer), methods=[method])

        return [
            route("", self._make, "POST"),
            route("", self._list, "GET"),
            route("/{job}", self._status, "GET"),
            route("/{job}", self._abort, "PATCH"),
            route("/{job}", self._delete, "DELETE"),
            route("/{job}/results", self._results, "GET"),
        ]

    def _make(self, asked: RestRequest) -> Any:
        wanted = asked.fields()
        operation = str(wanted.get("operation"))
        delimiter = str(wanted.get("columnDelimiter", "COMMA"))
        ending = str(wanted.get("lineEnding", "LF"))
        if operation not in {"query", "queryAll"} or wanted.get("contentType", "CSV") != "CSV":
            raise RecordRefusedError(
                "INVALIDJOB", "operation is query or queryAll, contentType is CSV"
            )
        if delimiter not in _DELIMITERS or ending not in _ENDINGS:
            raise RecordRefusedError(
                "INVALIDJOB", f"columnDelimiter {delimiter}, lineEnding {ending}"
            )
        text = str(wanted.get("query", ""))
        query = soql.parse(text)
        if query.count or query.every:
            raise RecordRefusedError(
                "MALFORMED_QUERY", "a bulk query must name its fields, without COUNT() and FIELDS()"
            )
        found = run(self._database, query, text, deleted=operation == "queryAll")
        _check_columns(found)
        with self._lock:
            self._made += 1
            job = BulkJob(
                id=salesforce_ids.record_id("750", self._made),
                operation=operation,
                version=asked.version,
                user_id=asked.session.user_id,
                created_at=milliseconds(self._database.clock.now()),
                delimiter=delimiter,
                ending=ending,
                found=found,
                polls=self._database.bus.knobs.bulk_polls,
            )
            self._jobs[job.id] = job
            while len(self._jobs) > _MOST_JOBS:
                del self._jobs[next(iter(self._jobs))]
        return _shown(job)

    def _list(self, _: RestRequest) -> Any:
        with self._lock:
            jobs = [_shown(job) for job in self._jobs.values()]
        return {"done": True, "records": jobs, "nextRecordsUrl": None}

    def _status(self, asked: RestRequest) -> Any:
        with self._lock:
            job = self._find(asked)
            if job.state in {"UploadComplete", "InProgress"}:
                waits = job.polls > 0
                state = "InProgress" if waits else "JobComplete"
                job = replace(job, polls=job.polls - waits, state=state)
                self._jobs[job.id] = job
        done = job.state == "JobComplete"
        return {
            **_shown(job),
            "jobType": "V2Query",
            "numberRecordsProcessed": len(job.found.records) if done else 0,
            "retries": 0,
            "totalProcessingTime": 0,
        }

    def _abort(self, asked: RestRequest) -> Any:
        if asked.fields().get("state") != "Aborted":
            raise RecordRefusedError("INVALIDJOBSTATE", "a query job can only be set to Aborted")
        with self._lock:
            job = replace(self._find(asked), state="Aborted")
            self._jobs[job.id] = job
        return _shown(job)

    def _delete(self, asked: RestRequest) -> None:
        with self._lock:
            del self._jobs[self._find(asked).id]

    def _results(self, asked: RestRequest) -> Any:
        with self._lock:
            job = self._find(asked)
        if job.state != "JobComplete":
            raise RecordRefusedError("INVALIDJOBSTATE", f"the job is {job.state}, not JobComplete")
        start = _start(asked.query.get("locator", ""))
        most = asked.query.get("maxRecords", "")
        end = start + (int(most) if _COUNT.fullmatch(most) else _MOST_IN_A_PART)
        records = job.found.records[start:end]
        headers = {
            "Sforce-NumberOfRecords": str(len(records)),
            "Sforce-Locator": _locator(end) if end < len(job.found.records) else "null",
        }
        text = to_csv(replace(job.found, records=records), job.delimiter, job.ending)
        return Response(text, media_type="text/csv; charset=utf-8", headers=headers)

    def _find(self, asked: RestRequest) -> BulkJob:
        if job := self._jobs.get(asked.path["job"]):
            return job
        raise not_found()


def to_csv(found: QueryResult, delimiter: str, ending: str) -> str:
    """Records as CSV: every value quoted, column names first.

    :param delimiter: delimiter as named by a job; `ending` likewise.
    """
    out = io.StringIO()
    writer = csv.writer(
        out,
        delimiter=_DELIMITERS[delimiter],
        lineterminator=_ENDINGS[ending],
        quoting=csv.QUOTE_ALL,
    )
    writer.writerow([column.name for column in found.columns])
    for record in found.records:
        writer.writerow([record_views.as_csv(record, column) for column in found.columns])
    return out.getvalue()


def _check_columns(found: QueryResult) -> None:
    for column in found.columns:
        if isinstance(column, DeclaredField) and column.kind not in PERSON_NAMES:
            raise RecordRefusedError(
                "FUNCTIONALITY_NOT_ENABLED", "Selecting compound data not supported in Bulk Query"
            )


def _shown(job: BulkJob) -> dict[str, Any]:
    created = field_values.as_json(job.created_at, "DateTime")
    return {
        "id": job.id,
        "operation": job.operation,
        "object": job.found.sobject.name,
        "createdById": job.user_id,
        "createdDate": created,
        "systemModstamp": created,
        "state": job.state,
        "concurrencyMode": "Parallel",
        "contentType": "CSV",
        "apiVersion": float(job.version),
        "lineEnding": job.ending,
        "columnDelimiter": job.delimiter,
    }


def _locator(start: int) -> str:
    return base64.urlsafe_b64encode(str(start).encode()).decode().rstrip("=")


def _start(locator: str) -> int:
    if not locator:
        return 0
    try:
        return int(base64.urlsafe_b64decode(locator + "=" * (-len(locator) % 4)))
    except (ValueError, binascii.Error) as error:
        raise RecordRefusedError("INVALID_QUERY_LOCATOR", "invalid query locator") from error
