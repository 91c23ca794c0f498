"""A minimal REST client: a token, JSON both ways, without package code."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator import Emulator, Org

DATA = "/services/data/v64.0"


class Said(NamedTuple):
    """HTTP answer; `body` is parsed if it is JSON, None if it is empty."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def code(self) -> str:
        """Error code of the first error."""
        return str(self.body[0]["errorCode"])


class Rest:
    """Client of one org with a valid token."""

    def __init__(self, bus: Emulator, org: Org | None = None) -> None:
        extra = bus.connection("session", org)["extra"]
        self.url = extra["instance_url"]
        self.headers = {"Authorization": f"Bearer {extra['session_token']}"}

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Said:
        """Send a request; `path` is below `/services/data/v64.0` or begins with /services."""
        whole = path if path.startswith("/services") else DATA + path
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        more = {name.replace("_", "-"): value for name, value in headers.items()}
        request = Request(  # noqa: S310 - a URL of the emulator
            self.url + whole, data=data, method=method, headers={**self.headers, **more}
        )
        try:
            with urlopen(request, timeout=10) as answer:  # noqa: S310
                return _said(answer.status, answer.read(), answer.headers)
        except HTTPError as error:
            with error:
                return _said(error.code, error.read(), error.headers)

    def query(self, soql: str, resource: str = "query", **headers: str) -> Said:
        return self.ask("GET", f"/{resource}?{urlencode({'q': soql})}", **headers)

    def read_all(self, soql: str, resource: str = "query") -> list[dict[str, Any]]:
        """Every record, page by page, without attributes."""
        page = self.query(soql, resource).body
        found = list(page["records"])
        while not page["done"]:
            page = self.ask("GET", page["nextRecordsUrl"]).body
            found += page["records"]
        return [
            {name: value for name, value in one.items() if name != "attributes"} for one in found
        ]

    def bulk(self, soql: str, part: int, operation: str = "query") -> list[dict[str, str]]:
        """Every record of a bulk query, read in parts."""
        job = self.ask("POST", "/jobs/query", {"operation": operation, "query": soql}).body["id"]
        while self.ask("GET", f"/jobs/query/{job}").body["state"] != "JobComplete":
            pass
        rows: list[dict[str, str]] = []
        locator = ""
        while locator != "null":
            path = f"/jobs/query/{job}/results?maxRecords={part}"
            answer = self.ask("GET", path + (f"&locator={locator}" if locator else ""))
            rows += csv.DictReader(io.StringIO(answer.body))
            locator = answer.headers["sforce-locator"]
        return rows


def _said(status: int, body: bytes, headers: Any) -> Said:
    is_json = "json" in headers.get("content-type", "")
    text = body.decode()
    return Said(
        status,
        json.loads(text) if is_json else text or None,
        {k.lower(): v for k, v in headers.items()},
    )
