"""The alert rules and the dashboard use metrics that exist."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

from airflow_provider_sfevents import ui
from airflow_provider_sfevents.batches.position.position_metrics import (
    METRICS,
    Metric,
    exposition,
    of_position,
)
from tests.unit.batches.test_position_metrics import position

FOLDER = Path(ui.__file__).with_name("monitoring")
RULES, DASHBOARD = FOLDER / "prometheus_alerts.yml", FOLDER / "grafana_dashboard.json"
TESTS = FOLDER / "prometheus_alerts_test.yml"
SHOWN = [*of_position(position()), Metric(name="waits", value=0, labels={"state": "alive"})]
"""Metrics of the route; the others are sent by tasks and triggers alone."""
OF_ROUTE = {line.split()[2] for line in exposition(SHOWN).splitlines() if line.startswith("# TYPE")}
KNOWN = OF_ROUTE | {f"airflow_sfevents_{name}" for name in METRICS}
"""With those of Airflow's statistics, as Prometheus has their names."""


def used(expressions: list[str]) -> set[str]:
    return {name for one in expressions for name in re.findall(r"(?:airflow_)?sfevents_\w+", one)}


def test_alerts_use_metrics_that_exist() -> None:
    """Each rule is about metrics that are sent, and says what happens and what to do."""
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    assert used([rule["expr"] for rule in group["rules"]]) <= KNOWN
    for rule in group["rules"]:
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["labels"]["severity"] in {"warning", "critical"}


def test_panels_use_metrics_that_exist() -> None:
    """Each panel of the dashboard is about metrics that are sent."""
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert used([one["expr"] for panel in panels for one in panel["targets"]]) <= KNOWN
    assert len({panel["id"] for panel in panels}) == len(panels)


def test_each_alert_is_tested_with_its_consumers_dag_paused() -> None:
    """Each rule's tests see it quiet and firing, and no metric moves after its alert began."""
    [group] = yaml.safe_load(RULES.read_text())["groups"]
    quiet: set[str] = set()
    firing: set[str] = set()
    for test in yaml.safe_load(TESTS.read_text())["tests"]:
        for one in test["alert_rule_test"]:
            (firing if one.get("exp_alerts") else quiet).add(one["alertname"])
        for series in test["input_series"]:
            assert re.fullmatch(r"(\d+x\d+ ?)+", series["values"]), series
    assert quiet == firing == {rule["alert"] for rule in group["rules"]}


def test_the_rules_hold_in_prometheus(tmp_path: Path) -> None:
    """Prometheus' own program takes rules and panels, and the tests of the rules pass."""
    if (promtool := shutil.which("promtool")) is None:
        pytest.skip("There is no promtool: install Debian's package prometheus.")
    panels = json.loads(DASHBOARD.read_text())["panels"]
    shown = [target["expr"] for panel in panels for target in panel["targets"]]
    records = [{"record": f"panel:{number}", "expr": expr} for number, expr in enumerate(shown)]
    of_panels = tmp_path / "panels.yml"
    of_panels.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    for command in (
        ["check", "rules", RULES.name],
        ["check", "rules", str(of_panels)],
        ["test", "rules", TESTS.name],
    ):
        done = subprocess.run(
            [promtool, *command], cwd=FOLDER, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
