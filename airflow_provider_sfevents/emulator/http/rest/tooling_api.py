"""The Tooling API over an org's setup: query, create, read, change and delete records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Route

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.http.rest import setup_records
from airflow_provider_sfevents.emulator.managed.subscription_config import ManagedRefusedError
from airflow_provider_sfevents.emulator.org.queries import soql
from airflow_provider_sfevents.emulator.org.queries.record_selection import select
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError, not_found
from airflow_provider_sfevents.emulator.org.records import record_views

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_sfevents.emulator.http.rest.rest_requests import (
        Answer,
        RestGate,
        RestRequest,
    )
    from airflow_provider_sfevents.emulator.http.rest.setup_edits import SetupEdits
    from airflow_provider_sfevents.emulator.org.objects.object_definitions import SObject
    from airflow_provider_sfevents.emulator.org.records.record_edits import Record

_BASE = "/services/data/v{version}/tooling"


class ToolingResource:
    """Tooling routes of one org."""

    def __init__(self, edits: SetupEdits) -> None:
        self._edits = edits

    def routes(self, gate: RestGate) -> list[Route]:
        def route(path: str, answer: Answer, method: str) -> Route:
            return Route(f"{_BASE}{path}", gate.serving(_refusing(answer)), methods=[method])

        one = "/sobjects/{entity}/{record_id}"
        return [
            route("/query", self._query, "GET"),
            route("/sobjects/{entity}", self._create, "POST"),
            route(one, self._read, "GET"),
            route(one, self._update, "PATCH"),
            route(one, self._delete, "DELETE"),
        ]

    def _query(self, asked: RestRequest) -> Any:
        text = asked.query.get("q", "")
        query = soql.parse(text)
        sobject = _sobject(query.entity, asked)
        if sobject is None:
            at = max(0, text.lower().find(query.entity.lower()))
            why = f"sObject type '{query.entity}' is not supported."
            raise soql.malformed(text, at, why, "INVALID_TYPE")
        found = select(query, sobject, self._edits.records(sobject.name), deleted=False)
        count = len(found.records)
        asks_whole = any(column.name in setup_records.UNBOUNDED for column in found.columns)
        if asks_whole and count > 1:
            raise RecordRefusedError(
                "MALFORMED_QUERY",
                "When retrieving results with Metadata or FullName fields, the query "
                "qualifications must specify no "
                f"more than one row for retrieval. Result size: {count}",
            )
        rows = [
            _row(one, list(found.columns), sobject, asked)
            for one in (() if query.count else found.records)
        ]
        return {
            "size": count,
            "totalSize": count,
            "done": True,
            "queryLocator": None,
            "entityTypeName": sobject.name,
            "records": rows,
        }

    def _create(self, asked: RestRequest) -> Any:
        sobject = _known(asked)
        record_id = self._edits.create(sobject.name, asked.fields(), asked.version)
        body = {"id": record_id, "success": True, "errors": [], "warnings": [], "infos": []}
        return JSONResponse(body, status_code=201)

    def _read(self, asked: RestRequest) -> Any:
        sobject, record = self._find(asked)
        columns = [
            one
            for one in record_views.every_column(sobject)
            if one.name not in setup_records.NOT_KEPT
        ]
        return _row(record, columns, sobject, asked)

    def _update(self, asked: RestRequest) -> None:
        sobject, record = self._find(asked)
        self._edits.update(sobject.name, record.id, asked.fields())

    def _delete(self, asked: RestRequest) -> None:
        sobject, record = self._find(asked)
        self._edits.delete(sobject.name, record.id)

    def _find(self, asked: RestRequest) -> tuple[SObject, Record]:
        sobject, record_id = _known(asked), asked.path["record_id"]
        for record in self._edits.records(sobject.name) if salesforce_ids.is_id(record_id) else ():
            if record.id[:15] == record_id[:15]:
                return sobject, record
        raise not_found()


def _refusing(answer: Callable[[RestRequest], Any]) -> Answer:
    """Handler that reports a refusal of the managed registry like any other refusal."""

    def answering(asked: RestRequest) -> Any:
        try:
            return answer(asked)
        except ManagedRefusedError as refused:
            raise RecordRefusedError(refused.code, refused.message) from refused

    return answering


def _sobject(name: str, asked: RestRequest) -> SObject | None:
    """Object by its name in any case; None if this API version does not have it."""
    for known in setup_records.OBJECTS.values():
        if known.name.lower() == name.lower():
            return (
                known if float(asked.version) >= setup_records.SINCE.get(known.name, 0.0) else None
            )
    return None


def _known(asked: RestRequest) -> SObject:
    sobject = _sobject(asked.path["entity"], asked)
    if sobject is None:
        raise not_found()
    return sobject


def _row(
    record: Record, columns: list[record_views.Column], sobject: SObject, asked: RestRequest
) -> dict[str, Any]:
    shown = record_views.row(record, columns, sobject, asked.version)
    url = f"/services/data/v{asked.version}/tooling/sobjects/{sobject.name}/{record.id}"
    return {**shown, "attributes": {"type": sobject.name, "url": url}}
