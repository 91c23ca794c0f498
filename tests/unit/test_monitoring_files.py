"""The alert rules and the dashboard use metrics that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from airflow_provider_sfevents import ui
from airflow_provider_sfevents.batches.position.position_metrics import (
    Metric,
    exposition,
    of_position,
)
from tests.unit.batches.test_position_metrics import position

FOLDER = Path(ui.__file__).with_name("monitoring")
RULES, DASHBOARD = FOLDER / "prometheus_alerts.yml", FOLDER / "grafana_dashboard.json"
SHOWN = [*of_position(position()), Metric(name="waits", value=0, labels={"state": "alive"})]
"""Metrics of the route; the others are sent by tasks and triggers alone."""
KNOWN = {line.split()[2] for line in exposition(SHOWN).splitlines() if line.startswith("# TYPE")}


def used(expressions: list[str]) -> set[str]:
    return {name for one in expressions for name in re.findall(r"sfevents_\w+", one)}


def test_alerts_use_metrics_that_exist() -> None:
    """Each rule is about metrics of the page, and says what happens and what to do."""
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    assert used([rule["expr"] for rule in group["rules"]]) <= KNOWN
    for rule in group["rules"]:
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["labels"]["severity"] in {"warning", "critical"}


def test_panels_use_metrics_that_exist() -> None:
    """Each panel of the dashboard is about metrics of the page."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert used([one["expr"] for panel in panels for one in panel["targets"]]) <= KNOWN
    assert len({panel["id"] for panel in panels}) == len(panels)
