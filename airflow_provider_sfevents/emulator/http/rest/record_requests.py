"""Records over REST: create, read, update, delete, recent changes, and several at once."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Route

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus.payload_codec import milliseconds
from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.http.rest.describe import (
    describe,
    describe_event,
    described_briefly,
    event_described_briefly,
)
from airflow_provider_sfevents.emulator.org.objects import field_values
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError, not_found
from airflow_provider_sfevents.emulator.org.record_transaction import Transaction
from airflow_provider_sfevents.emulator.org.records import record_views
from airflow_provider_sfevents.emulator.org.records.change_encoding import TransactionStamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_sfevents.emulator.bus.topic import BusTopic
    from airflow_provider_sfevents.emulator.http.rest.rest_requests import RestGate, RestRequest
    from airflow_provider_sfevents.emulator.org.database import Database
    from airflow_provider_sfevents.emulator.org.objects.object_definitions import SObject
    from airflow_provider_sfevents.emulator.org.records.record_edits import Record

    Publish = Callable[[str, dict[str, Any], str], str | None]
    Change = Callable[[Transaction, Any], str]

_BASE = "/services/data/v{version}"
_MOST_TOGETHER = 200


class RecordResource:
    """Record routes of one org.

    :param publish: publishes a platform event by its API name for a user and returns its id; None
        if there is no such event.
    """

    def __init__(self, database: Database, publish: Publish) -> None:
        self._database = database
        self._publish = publish

    def routes(self, gate: RestGate) -> list[Route]:
        def route(path: str, answer: Any, *methods: str) -> Route:
            return Route(f"{_BASE}{path}", gate.serving(answer), methods=list(methods))

        one = "/sobjects/{entity}/{record_id}"
        return [
            route("/sobjects", self._all, "GET"),
            route("/sobjects/{entity}", self._about, "GET"),
            route("/sobjects/{entity}", self._create, "POST"),
            route("/sobjects/{entity}/describe", self._describe, "GET"),
            route("/sobjects/{entity}/deleted", self._deleted, "GET"),
            route("/sobjects/{entity}/updated", self._updated, "GET"),
            route(one, self._read, "GET"),
            route(one, self._update, "PATCH"),
            route(one, self._delete, "DELETE"),
            route("/composite/sobjects", self._create_several, "POST"),
            route("/composite/sobjects", self._update_several, "PATCH"),
            route("/composite/sobjects", self._delete_several, "DELETE"),
        ]

    # --- objects ----------------------------------------------------------------------------------

    def _all(self, asked: RestRequest) -> Any:
        names = self._database.names
        shown = [described_briefly(self._sobject(name), asked.version) for name in names]
        events = [one for one in self._database.bus.topics if one.schema_id]
        shown += [event_described_briefly(one, asked.version) for one in events]
        return {"encoding": "UTF-8", "maxBatchSize": _MOST_TOGETHER, "sobjects": shown}

    def _about(self, asked: RestRequest) -> Any:
        if topic := self._event(asked):
            described = event_described_briefly(topic, asked.version)
        else:
            described = described_briefly(self._sobject(asked.path["entity"]), asked.version)
        return {"objectDescribe": described, "recentItems": []}

    def _describe(self, asked: RestRequest) -> Any:
        if topic := self._event(asked):
            schema = json.loads(self._database.bus.schema(topic.schema_id) or "")
            return describe_event(topic, schema, asked.version)
        return describe(self._sobject(asked.path["entity"]), asked.version)

    def _event(self, asked: RestRequest) -> BusTopic | None:
        """Topic of the platform event or change events that a path names."""
        name = asked.path["entity"]
        found = (self._database.bus.topic(f"/{kind}/{name}") for kind in ("event", "data"))
        return next((one for one in found if one and one.kind != "channel"), None)

    # --- one record -------------------------------------------------------------------------------

    def _create(self, asked: RestRequest) -> Any:
        name, fields = asked.path["entity"], asked.fields()
        if name.endswith("__e") or self._database.bus.topic(f"/event/{name}"):
            return _published(self._publish(name, fields, asked.session.user_id))
        sobject = self._sobject(name)
        with self._database.lock:
            record_id = self._change(
                asked, lambda changes: changes.create(sobject.name, _without_attributes(fields))
            )
        return JSONResponse({"id": record_id, "success": True, "errors": []}, status_code=201)

    def _read(self, asked: RestRequest) -> Any:
        sobject, record = self._find(asked)
        if record.deleted_at is not None:
            raise not_found()
        names = [name for name in asked.query.get("fields", "").split(",") if name]
        columns = (
            list(dict.fromkeys([sobject.fields["Id"], *(sobject.find(name) for name in names)]))
            if names
            else record_views.every_column(sobject)
        )
        return record_views.row(record, columns, sobject, asked.version)

    def _update(self, asked: RestRequest) -> None:
        _, record = self._find(asked)
        fields = _without_attributes(asked.fields())
        self._change(asked, lambda changes: changes.update(record.id, fields))

    def _delete(self, asked: RestRequest) -> None:
        _, record = self._find(asked)
        self._change(asked, lambda changes: changes.delete(record.id))

    # --- several records --------------------------------------------------------------------------

    def _create_several(self, asked: RestRequest) -> Any:
        def create(changes: Transaction, one: dict[str, Any]) -> str:
            attributes = one.get("attributes")
            named = attributes.get("type", "") if isinstance(attributes, dict) else ""
            return changes.create(self._sobject(str(named)).name, _without_attributes(one))

        return self._several(asked, _records_of(asked), create)

    def _update_several(self, asked: RestRequest) -> Any:
        def update(changes: Transaction, one: dict[str, Any]) -> str:
            fields = {name: value for name, value in one.items() if name.lower() != "id"}
            record_id = self._known_id(str(one.get("id") or one.get("Id") or ""))
            changes.update(record_id, _without_attributes(fields))
            return record_id

        return self._several(asked, _records_of(asked), update)

    def _delete_several(self, asked: RestRequest) -> Any:
        def delete(changes: Transaction, one: str) -> str:
            record_id = self._known_id(one)
            changes.delete(record_id)
            return record_id

        return self._several(
            asked, [one for one in asked.query.get("ids", "").split(",") if one], delete
        )

    def _several(self, asked: RestRequest, wanted: Sequence[Any], change: Change) -> Any:
        """Make changes in one transaction: each possible one, or with `allOrNone` all or none."""
        if len(wanted) > _MOST_TOGETHER:
            raise RecordRefusedError(
                "INVALID_BATCH_SIZE", f"more than {_MOST_TOGETHER} records: {len(wanted)}"
            )
        flag = asked.query.get("allOrNone") or (
            asked.fields().get("allOrNone") if asked.body else ""
        )
        results: list[dict[str, Any]] = []
        with self._database.lock:
            changes = Transaction(self._database, user_id=asked.session.user_id)
            for one in wanted:
                try:
                    record_id = change(changes, one)
                    results.append({"id": record_id, "success": True, "errors": []})
                except RecordRefusedError as refused:
                    results.append({"success": False, "errors": [_as_result(refused)]})
            failed = any(not result["success"] for result in results)
            if failed and str(flag).lower() == "true":
                return [_rolled_back(result) for result in results]
            changes.commit(TransactionStamp(origin=asked.origin))
        return results

    # --- recent changes ---------------------------------------------------------------------------

    def _deleted(self, asked: RestRequest) -> Any:
        sobject = self._sobject(asked.path["entity"])
        start, end = _window(asked)
        gone = [
            {"id": one.id, "deletedDate": field_values.as_json(one.deleted_at, "DateTime")}
            for one in self._database.records(sobject.name)
            if one.deleted_at is not None and start <= one.deleted_at < end
        ]
        records = self._database.records(sobject.name)
        earliest = min((one.get("CreatedDate") for one in records), default=start)
        return {
            "deletedRecords": gone,
            "earliestDateAvailable": field_values.as_json(earliest, "DateTime"),
            "latestDateCovered": field_values.as_json(min(end, self._now()), "DateTime"),
        }

    def _updated(self, asked: RestRequest) -> Any:
        sobject = self._sobject(asked.path["entity"])
        start, end = _window(asked)
        changed = [
            one.id
            for one in self._database.records(sobject.name)
            if one.deleted_at is None and start <= one.get("SystemModstamp") < end
        ]
        covered = field_values.as_json(min(end, self._now()), "DateTime")
        return {"ids": changed, "latestDateCovered": covered}

    # --- inside -----------------------------------------------------------------------------------

    def _change(self, asked: RestRequest, change: Callable[[Transaction], Any]) -> Any:
        with self._database.lock:
            changes = Transaction(self._database, user_id=asked.session.user_id)
            outcome = change(changes)
            changes.commit(TransactionStamp(origin=asked.origin))
            return outcome

    def _sobject(self, name: str) -> SObject:
        return self._database.sobject(name)

    def _find(self, asked: RestRequest) -> tuple[SObject, Record]:
        """Record named by the path, deleted or not."""
        sobject, record_id = self._sobject(asked.path["entity"]), asked.path["record_id"]
        if not salesforce_ids.is_id(record_id):
            raise not_found()
        record = self._database.record(sobject.name, salesforce_ids.long_id(record_id[:15]))
        if record is None:
            raise not_found()
        return sobject, record

    def _known_id(self, record_id: str) -> str:
        """Long form of an id that belongs to an object of this org."""
        try:
            self._database.entity_of(record_id)
        except EmulatorError as error:
            raise RecordRefusedError("MALFORMED_ID", f"bad id {record_id}", ("Id",)) from error
        return salesforce_ids.long_id(record_id[:15])

    def _now(self) -> int:
        return milliseconds(self._database.clock.now())


def _records_of(asked: RestRequest) -> list[dict[str, Any]]:
    found = asked.fields().get("records") or []
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise RecordRefusedError("JSON_PARSER_ERROR", "records is not a list of JSON objects")
    return found


def _published(event_id: str | None) -> JSONResponse:
    if event_id is None:
        raise not_found()
    enqueued = {"statusCode": "OPERATION_ENQUEUED", "message": event_id, "fields": []}
    # The id names no record, because platform events are not records.
    body = {"id": salesforce_ids.record_id("e01", 1), "success": True, "errors": [enqueued]}
    return JSONResponse(body, status_code=201)


def _without_attributes(fields: dict[str, Any]) -> dict[str, Any]:
    """Fields without `attributes`. REST cannot write a compound, only its members."""
    for name, value in fields.items():
        if name != "attributes" and isinstance(value, dict | list):
            raise RecordRefusedError(
                "INVALID_FIELD_FOR_INSERT_UPDATE",
                f"Unable to create/update fields: {name}. Please check the security settings of "
                "this field and "
                "verify that it is read/write for your profile or permission set.",
                (name,),
            )
    return {name: value for name, value in fields.items() if name != "attributes"}


def _as_result(refused: RecordRefusedError) -> dict[str, Any]:
    return {
        "statusCode": refused.code,
        "message": refused.message,
        "fields": list(refused.fields or ()),
    }


def _rolled_back(result: dict[str, Any]) -> dict[str, Any]:
    if not result["success"]:
        return result
    why = (
        "Record rolled back because not all records were valid and the request was using AllOrNone "
        "header"
    )
    error = {"statusCode": "ALL_OR_NONE_OPERATION_ROLLED_BACK", "message": why, "fields": []}
    return {"success": False, "errors": [error]}


def _window(asked: RestRequest) -> tuple[int, int]:
    found = []
    for name in ("start", "end"):
        # A plus sign that was not escaped in a URL arrives as a space.
        text = asked.query.get(name, "").replace(" ", "+")
        try:
            moment = datetime.fromisoformat(text)
            found.append(milliseconds(moment.astimezone(UTC) if moment.tzinfo else moment))
        except (ValueError, OverflowError) as error:
            raise RecordRefusedError(
                "INVALID_REPLICATION_DATE", f"{name}: {text!r} is not a date"
            ) from error
    if found[0] >= found[1]:
        raise RecordRefusedError("INVALID_REPLICATION_DATE", "startDate must be before endDate")
    return found[0], found[1]
