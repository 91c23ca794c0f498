"""The dashboard is one of Grafana's, by Grafana's own schema."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from airflow_provider_sfevents import ui
from tests.harness.foreign_packages import node_modules

pytestmark = [pytest.mark.full, pytest.mark.timeout(900)]

DASHBOARD = Path(ui.__file__).with_name("monitoring") / "grafana_dashboard.json"
# A value of an enum is its text in JSON.
TYPED = """import type {{ Dashboard }} from "@grafana/schema";
type Json<T> = T extends string ? `${{T}}`
  : T extends object ? {{ [K in keyof T]: Json<T[K]> }} : T;
export const dashboard: Json<Dashboard> = {};
"""
OPTIONS = ("--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2022")


def check(dashboard: str, folder: Path) -> str:
    """Return what TypeScript's compiler has against a dashboard, by the types of the schema."""
    installed = node_modules()
    link = folder / "node_modules"
    if not link.exists():
        link.symlink_to(installed)
    (folder / "dashboard.ts").write_text(TYPED.format(dashboard))
    node = shutil.which("node") or "node"
    compiler = installed / "typescript/bin/tsc"
    done = subprocess.run(
        [node, compiler, *OPTIONS, "dashboard.ts"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_the_dashboard_holds_to_grafanas_schema(tmp_path: Path) -> None:
    """Every field is one that Grafana knows, with a value of its type."""
    assert check(DASHBOARD.read_text(), tmp_path) == ""


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        ('"gridPos"', '"gridpos"', "may only specify known properties"),
        ('"mode": "absolute"', '"mode": "abs"', "is not assignable to type"),
        ('"schemaVersion": 39', '"schemaVersion": "39"', "is not assignable to type"),
    ],
)
def test_the_check_finds_what_grafana_does_not_know(
    right: str, wrong: str, said: str, tmp_path: Path
) -> None:
    """A misspelled field and a value of another type are errors."""
    assert said in check(DASHBOARD.read_text().replace(right, wrong), tmp_path)
