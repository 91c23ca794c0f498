"""Resources about an org: versions, resources, limits, schemas of its platform events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Route

from airflow_provider_sfevents.emulator.http.rest.limits_resource import UsedAllowances, limits
from airflow_provider_sfevents.emulator.org.record_errors import RecordRefusedError, not_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.http.rest.rest_requests import RestGate, RestRequest

_BASE = "/services/data/v{version}"
_VERSIONS = range(31, 68)
_SEASONS = ("Summer", "Winter", "Spring")  # since version 31.0 of Summer '14
_EXPANDED_SINCE = 43


class OrgResource:
    """Routes about one org.

    :param used: returns the allowances that its clients have used.
    """

    def __init__(self, bus: Bus, used: Callable[[], UsedAllowances]) -> None:
        self._bus = bus
        self._used = used

    def routes(self, gate: RestGate) -> list[Route]:
        def route(path: str, answer: Any) -> Route:
            return Route(f"{_BASE}{path}", gate.serving(answer), methods=["GET"])

        return [
            Route("/services/data", self._versions, methods=["GET"]),
            route("", self._resources),
            route("/limits", self._limits),
            route("/event/eventSchema/{schema_id}", self._by_id),
            route("/sobjects/{event}/eventSchema", self._by_name),
        ]

    async def _versions(self, _: Request) -> JSONResponse:
        """List the API versions; no login needed."""
        return JSONResponse(
            [
                {
                    "label": release(number),
                    "url": f"/services/data/v{number}.0",
                    "version": f"{number}.0",
                }
                for number in _VERSIONS
            ]
        )

    def _resources(self, asked: RestRequest) -> Any:
        names = ("composite", "jobs", "limits", "query", "queryAll", "sobjects", "tooling")
        return {name: f"/services/data/v{asked.version}/{name}" for name in names}

    def _limits(self, _: RestRequest) -> Any:
        return limits(self._bus.knobs, self._used())

    def _by_id(self, asked: RestRequest) -> Any:
        return self._schema(asked.path["schema_id"], asked)

    def _by_name(self, asked: RestRequest) -> Any:
        for topic in self._bus.topics:
            if asked.path["event"] == topic.name.rpartition("/")[2] and topic.schema_id:
                return self._schema(topic.schema_id, asked)
        raise not_found()

    def _schema(self, schema_id: str, asked: RestRequest) -> Any:
        """Schema with its id, which gRPC does not return."""
        text = None if self._bus.has_forgotten(schema_id) else self._bus.schema(schema_id)
        if text is None:
            raise not_found()
        known = json.loads(text)
        wanted = asked.query.get("payloadFormat", "").upper()
        if float(asked.version) < _EXPANDED_SINCE:
            if not wanted:
                return {**known, "uuid": schema_id}
        elif wanted == "COMPACT":
            return {**known, "uuid": schema_id}
        elif wanted in {"EXPANDED", ""}:
            return expanded(known)
        raise RecordRefusedError(
            "INVALID_PARAMETER",
            f"payloadFormat is EXPANDED or COMPACT, from version {_EXPANDED_SINCE}.0 on",
        )


def release(number: int) -> str:
    """Name of the release that introduced an API version: `Summer '25` for 64."""
    since = number - _VERSIONS.start
    year = 14 + since // len(_SEASONS) + (since % len(_SEASONS) > 0)
    return f"{_SEASONS[since % len(_SEASONS)]} '{year}"


def expanded(schema: dict[str, Any]) -> dict[str, Any]:
    """Schema of an event as sent over CometD: with the envelope, and times as text."""
    payload = [{**field, "type": _as_text(field)} for field in schema["fields"]]
    data = [
        {"name": "schema", "type": "string"},
        {
            "name": "payload",
            "type": {"type": "record", "name": "Payload", "doc": "", "fields": payload},
        },
        {
            "name": "event",
            "type": {
                "type": "record",
                "name": "Event",
                "fields": [{"name": "replayId", "type": "long"}],
            },
        },
    ]
    inside = {"type": "record", "name": "Data", "namespace": "", "fields": data}
    return {
        "name": schema["name"],
        "namespace": schema["namespace"],
        "type": "expanded-record",
        "fields": [{"name": "data", "type": inside}, {"name": "channel", "type": "string"}],
    }


def _as_text(field: dict[str, Any]) -> Any:
    kind = field["type"]
    if isinstance(kind, list):
        return ["string" if one == "long" else one for one in kind]
    return "string" if kind == "long" else kind
