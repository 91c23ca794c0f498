"""Queries over REST: first page, and further pages by a cursor."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.org.queries import soql
from airflow_provider_sfevents.emulator.org.queries.record_selection import QueryResult, select
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError
from airflow_provider_sfevents.emulator.org.records import record_views

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.http.rest.rest_requests import RestGate, RestRequest
    from airflow_provider_sfevents.emulator.org.database import Database

_BASE = "/services/data/v{version}"
_MOST_CURSORS = 100
_LEAST_BATCH = 200
_BATCH = re.compile(r"batchSize\s*=\s*(\d{1,9})")


@dataclass(frozen=True, slots=True)
class _Cursor:
    found: QueryResult
    size: int


class QueryResource:
    """Query routes of one org. A cursor keeps its result; later changes do not show."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cursors: dict[str, _Cursor] = {}
        self._opened = 0
        self._lock = threading.Lock()

    def routes(self, gate: RestGate) -> list[Route]:
        return [
            Route(f"{_BASE}/{name}{rest}", gate.serving(answer), methods=["GET"])
            for name, answer in (("query", self._query), ("queryAll", self._query_all))
            for rest, answer in (("", answer), ("/{locator}", self._more))
        ]

    def _query(self, asked: RestRequest) -> Any:
        return self._answer(asked, "query", deleted=False)

    def _query_all(self, asked: RestRequest) -> Any:
        return self._answer(asked, "queryAll", deleted=True)

    def _answer(self, asked: RestRequest, resource: str, *, deleted: bool) -> Any:
        text = asked.query.get("q", "")
        query = soql.parse(text)
        found = run(self._database, query, text, deleted=deleted)
        if query.count:
            return {"totalSize": len(found.records), "done": True, "records": []}
        cursor = _Cursor(found, self._size(asked))
        return self._page(asked, resource, cursor, 0, "")

    def _more(self, asked: RestRequest) -> Any:
        cursor_id, _, start = asked.path["locator"].rpartition("-")
        with self._lock:
            cursor = self._cursors.get(cursor_id)
        if cursor is None or not start.isdigit():
            raise RecordRefusedError("INVALID_QUERY_LOCATOR", "invalid query locator")
        return self._page(asked, "query", cursor, int(start), cursor_id)

    def _page(
        self, asked: RestRequest, resource: str, cursor: _Cursor, start: int, cursor_id: str
    ) -> Any:
        found, end = cursor.found, start + cursor.size
        rows = [
            record_views.row(one, found.columns, found.sobject, asked.version)
            for one in found.records[start:end]
        ]
        page: dict[str, Any] = {"totalSize": len(found.records), "done": end >= len(found.records)}
        if not page["done"]:
            path = f"/services/data/v{asked.version}/{resource}"
            page["nextRecordsUrl"] = f"{path}/{cursor_id or self._open(cursor)}-{end}"
        return {**page, "records": rows}

    def _open(self, cursor: _Cursor) -> str:
        with self._lock:
            self._opened += 1
            cursor_id = salesforce_ids.record_id("01g", self._opened)
            self._cursors[cursor_id] = cursor
            while len(self._cursors) > _MOST_CURSORS:
                del self._cursors[next(iter(self._cursors))]
            return cursor_id

    def _size(self, asked: RestRequest) -> int:
        most = self._database.bus.knobs.query_batch
        wanted = _BATCH.search(asked.headers.get("sforce-query-options", ""))
        return min(most, max(_LEAST_BATCH, int(wanted[1]))) if wanted else most


def run(database: Database, query: soql.Query, text: str, *, deleted: bool) -> QueryResult:
    """Run a query on the current records.

    :param text: text of the query, to mark the position of an error.
    :raises RecordRefusedError: unknown object or field.
    """
    try:
        sobject = database.sobject(query.entity)
    except RecordRefusedError as error:
        at = text.lower().find(query.entity.lower())
        why = f"sObject type '{query.entity}' is not supported."
        raise soql.malformed(text, max(at, 0), why, "INVALID_TYPE") from error
    return select(query, sobject, database.records(sobject.name), deleted=deleted)
