"""Make docs/reference/page-api.json, the OpenAPI description of the page's API.

Run it by `python -m scripts.openapi_file`. Airflow serves no such file for it.
"""

from __future__ import annotations

import json
from pathlib import Path

from airflow_provider_sfevents.ui.api import make_app
from airflow_provider_sfevents.ui.plugin import URL_PREFIX

FILE = Path(__file__).parent.parent / "docs" / "reference" / "page-api.json"


def text() -> str:
    """The whole file."""
    servers = [{"url": URL_PREFIX, "description": "below Airflow's base_url"}]
    return json.dumps({**make_app().openapi(), "servers": servers}, indent=2) + "\n"


if __name__ == "__main__":
    FILE.write_text(text())
