"""What an org says of itself over REST: versions, resources, limits, schemas of its platform events."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from starlette.responses import JSONResponse
from starlette.routing import Route

from airflow_provider_sfevents.emulator.sobjects.refusals import RecordRefused, not_found

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request

    from airflow_provider_sfevents.emulator.bus import Bus
    from airflow_provider_sfevents.emulator.rest.face import Asked, Face

_BASE = "/services/data/v{version}"
_VERSIONS = ("62.0", "63.0", "64.0", "65.0")
_UNLIMITED = 50_000  # what an Unlimited Edition org may be delivered


class About:
    """Routes of one org.

    :param delivered: events delivered in the last 24 hours.
    """

    def __init__(self, bus: Bus, delivered: Callable[[], int]) -> None:
        self._bus = bus
        self._delivered = delivered

    def routes(self, face: Face) -> list[Route]:
        def route(path: str, answer: Any) -> Route:
            return Route(f"{_BASE}{path}", face.serving(answer), methods=["GET"])

        return [
            Route("/services/data", self._versions, methods=["GET"]),
            Route("/services/data/", self._versions, methods=["GET"]),
            route("", self._resources),
            route("/", self._resources),
            route("/limits", self._limits),
            route("/event/eventSchema/{schema_id}", self._by_id),
            route("/sobjects/{event}/eventSchema", self._by_name),
        ]

    async def _versions(self, _: Request) -> JSONResponse:
        """List the versions; nobody has to log in for that."""
        return JSONResponse(
            [
                {"label": f"v{one}", "url": f"/services/data/v{one}", "version": one}
                for one in _VERSIONS
            ]
        )

    def _resources(self, asked: Asked) -> Any:
        names = ("composite", "jobs", "limits", "query", "queryAll", "sobjects")
        return {name: f"/services/data/v{asked.version}/{name}" for name in names}

    def _limits(self, _: Asked) -> Any:
        most = self._bus.knobs.delivery_allocation
        most = _UNLIMITED if most is None else most
        left = max(0, most - self._delivered())
        return {"DailyDeliveredPlatformEvents": {"Max": most, "Remaining": left}}

    def _by_id(self, asked: Asked) -> Any:
        return self._schema(asked.path["schema_id"], asked)

    def _by_name(self, asked: Asked) -> Any:
        for topic in self._bus.topics:
            if asked.path["event"] == topic.record and topic.kind == "event":
                return self._schema(topic.schema_id, asked)
        raise not_found()

    def _schema(self, schema_id: str, asked: Asked) -> Any:
        """Schema with its id, which gRPC does not give."""
        text = None if self._bus.has_forgotten(schema_id) else self._bus.schema(schema_id)
        if text is None:
            raise not_found()
        if asked.query.get("payloadFormat", "EXPANDED").upper() != "COMPACT":
            raise RecordRefused(
                "INVALID_PARAMETER", "the emulator has schemas with payloadFormat=COMPACT only"
            )
        return {**json.loads(text), "uuid": schema_id}
