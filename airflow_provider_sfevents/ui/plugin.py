"""The plugin that brings the page and its API into Airflow.

Every Airflow process loads plugins, also workers, so this module imports nothing of FastAPI. The
API is imported with its first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from airflow_provider_sfevents import __version__

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from fastapi import FastAPI

URL_PREFIX = "/sfevents"
"""Path of the API below Airflow's `base_url`."""

URL_ROUTE = "salesforce_events"
"""Path of the page below `/plugin/`."""


class PageApi:
    """ASGI application that builds the API with its first request."""

    _app: FastAPI | None = None

    async def __call__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[MutableMapping[str, Any]]],
        send: Callable[[MutableMapping[str, Any]], Awaitable[None]],
    ) -> None:
        if self._app is None:
            from airflow_provider_sfevents.ui.api import make_app

            self._app = make_app()
        await self._app(scope, receive, send)


class SfEventsPlugin(AirflowPlugin):
    """The entry *Salesforce events* of the menu, and the API that the page reads."""

    name = "sfevents"

    fastapi_apps: ClassVar[list[dict[str, Any]]] = [
        {"name": "sfevents", "app": PageApi(), "url_prefix": URL_PREFIX}
    ]

    react_apps: ClassVar[list[dict[str, Any]]] = [
        {
            "name": "Salesforce events",
            # Relative, so that it is found below a `base_url` with a path, too.
            "bundle_url": f"{URL_PREFIX.strip('/')}/static/page.js?v={__version__}",
            "destination": "nav",
            "category": "browse",
            "url_route": URL_ROUTE,
        }
    ]
