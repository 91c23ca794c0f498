"""Every page: its links lead somewhere, and its samples fit the package."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.staging import layout
from tests.harness.pages import DOCS, Page, pages

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ROOT = DOCS.parent
PACKAGE = "airflow_provider_sfevents"
CLASSES = {
    f"{PACKAGE}.operators.sfevents": ("SfEventsToSparkOperator",),
    f"{PACKAGE}.operators.chain": ("SfEventsFetchOperator", "SfEventsCommitOperator"),
    f"{PACKAGE}.operators.publish": ("SfEventsPublishOperator",),
    f"{PACKAGE}.operators.entity_snapshot": ("SfEventsEntitySnapshotOperator",),
    f"{PACKAGE}.operators.maintain": ("SfEventsMaintainOperator",),
    f"{PACKAGE}.operators.doctor": ("SfEventsDoctorOperator",),
    f"{PACKAGE}.sensors.sfevents": ("SfEventsSensor",),
    f"{PACKAGE}.triggers.sfevents": ("SfEventsWatchTrigger",),
}
LINKED = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
PAGES = [*pages(), Page("../README.md")]


@pytest.mark.parametrize("page", LINKED, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    """Each relative link of a page names a file or folder of the repository."""
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", prose)
    assert [one for one in targets if not (page.parent / one).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_samples_are_python(page: Page) -> None:
    """Each sample of Python parses, and what it imports of the package is there."""
    for sample in page.samples("python"):
        for module, name in _imports(ast.parse(sample)):
            assert hasattr(importlib.import_module(module), name), f"{module} has no {name}"


@pytest.mark.airflow
def test_samples_use_arguments_that_exist() -> None:
    """Each operator, sensor and trigger in a sample is called with arguments that it takes."""
    known = {
        name: _arguments(getattr(importlib.import_module(module), name))
        for module, names in CLASSES.items()
        for name in names
    }
    called = [
        (page.name, name, argument)
        for page in PAGES
        for sample in page.samples("python")
        for name, argument in _keywords(ast.parse(sample))
        if name in known
    ]
    assert len(called) > 50
    assert [one for one in called if one[2] not in known[one[1]]] == []


def test_modules_of_the_walks_are_there() -> None:
    """Each module in the first column of the architecture's tables is one of the package."""
    rows = re.findall(
        r"^\| (`\w+[^|]*`) \|", Page("explanation/architecture.md").text, re.MULTILINE
    )
    named = [name for row in rows for name in re.findall(r"`([\w/]+)`", row) if "/" in name]
    assert len(named) > 30
    package = ROOT / PACKAGE
    assert [
        name
        for name in named
        if not (package / name).is_dir() and not (package / f"{name}.py").is_file()
    ] == []


def test_every_file_of_the_staging_area_is_listed() -> None:
    """The page of files names each file and folder of the staging area, and each staged column."""
    text = Page("reference/files.md").text
    names = [value for name, value in vars(layout).items() if name.isupper()]
    files = [one for one in names if isinstance(one, str) and one not in _NOT_FILES]
    assert len(files) > 20
    assert [one for one in files if one not in text] == []


_NOT_FILES = {layout.NAMELESS, layout.FOOTER}


def test_every_page_is_in_the_index() -> None:
    """The index links each page once, so that the site's navigation has it."""
    index = (DOCS / "index.md").read_text()
    linked = re.findall(r"^- \[[^\]]+\]\(([\w/-]+\.md)\)", index, re.MULTILINE)
    assert sorted(linked) == sorted(page.name for page in pages() if page.name != "index.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_prose_fits_in_100_columns(page: Page) -> None:
    """Lines of prose have at most 100 columns; tables and code may be longer."""
    prose = re.sub(r"^```.*?^```$", "", page.text, flags=re.MULTILINE | re.DOTALL)
    long = [line for line in prose.splitlines() if len(line) > 100]
    # A line that begins with a link or a piece of code may be one that cannot be broken.
    assert [line for line in long if not re.match(r"\s*(\||!\[|\[|`|    )", line)] == []


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE):
            for alias in node.names:
                yield node.module or "", alias.name


def _keywords(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names of called classes with each of their keywords, `partial` and `expand` included."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if isinstance(called, ast.Attribute):  # Operator.partial(...)
            called = called.value
        if isinstance(called, ast.Name):
            for keyword in node.keywords:
                if keyword.arg:
                    yield called.id, keyword.arg


def _arguments(kind: type) -> set[str]:
    """Arguments of a class and of the classes that it hands further ones to."""
    return {
        name
        for base in kind.__mro__
        if base is not object and "__init__" in vars(base)
        for name in inspect.signature(vars(base)["__init__"]).parameters
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_anchors_are_headings(page: Page) -> None:
    """Each link with an anchor names a heading of its page, in the form that GitHub uses."""
    here = DOCS / page.name
    for target, anchor in re.findall(r"\]\(([^)#\s]*\.md)?#([^)\s]+)\)", page.text):
        text = (here.parent / target).read_text() if target else page.text
        assert anchor in _anchors(text), f"{target}#{anchor}"


def _anchors(text: str) -> set[str]:
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
