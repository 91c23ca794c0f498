"""Check the house rules that the linters do not know: `python -m scripts.house_rules`.

1. A module has at most 400 lines, a function at most 60, a folder of the package at most 16
   modules.
2. A class of the package has a name that no other class of the package has.
3. A module has a docstring, and so has a test; a test module may leave it to its name.
4. No docstring begins with a question word, or with a field such as `:param`: it names the thing
   that it describes.
5. Some words are not used, in names neither, because they leave open which process or person is
   meant. A quoted word is a name, such as that of a Unix user.
6. A line has at most 100 columns. A line with a URL may be longer, and so may a row of test data,
   which is an expression of its own. Comments for the linters at the end of a line do not count.
7. No module has a name that anything would fit under, such as `utils`.

Each violation is printed as `path:line: rule`, and any of them fails the command. Generated code is
left out.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = Path(__file__).parent.parent
FOLDERS = ("airflow_provider_sfevents", "tests", "dags", "scripts", "benchmarks")
PACKAGE = FOLDERS[0]
GENERATED = f"{PACKAGE}/proto"

MODULE_LINES = 400
FUNCTION_LINES = 60
FOLDER_MODULES = 16
COLUMNS = 100

_OPENING = re.compile(r"\s*((?:What|Which|Who|Whose|Where|When|How|Whether)\b|:\w+)")
_UNWANTED = re.compile(
    r"(?<![A-Za-z])(?:who(?:ever)|(?:some|no|any)(?:body)|for[\s_](?:ever)|in[\s_](?:vain))"
    r"(?![A-Za-z])",
    re.IGNORECASE,
)
_QUOTES = {"``", "''", '""'}
_FOR_LINTERS = re.compile(r"(?:\s*# (?:noqa|type: ignore|fmt)\b[^#]*)+$")
_ROWS = (ast.Tuple, ast.List, ast.Dict, ast.Constant, ast.JoinedStr)
_ANYTHING = {"utils", "util", "common", "helpers", "helper", "misc", "core", "base", "manager"}


def violations(sources: Mapping[str, str]) -> list[str]:
    """Check all modules, given as source text by path, and return the violations by path and line.

    Paths are relative to the root of the project, with `/`.
    """
    trees = {path: ast.parse(text) for path, text in sources.items()}
    found = [
        *(one for path, text in sources.items() for one in _line_violations(path, text)),
        *(one for path, tree in trees.items() for one in _tree_violations(path, tree)),
        *_crowded_folders(sources),
        *_repeated_classes(trees),
    ]
    return [f"{path}:{line}: {rule}" for path, line, rule in sorted(found)]


_Violation = tuple[str, int, str]


def _line_violations(path: str, text: str) -> Iterator[_Violation]:
    lines = text.splitlines()
    if len(lines) > MODULE_LINES:
        yield path, len(lines), f"module of {len(lines)} lines, more than {MODULE_LINES}"
    for number, line in enumerate(lines, start=1):
        length = len(_FOR_LINTERS.sub("", line))
        if length > COLUMNS and "://" not in line and not _is_test_data(path, line):
            yield path, number, f"line of {length} columns, more than {COLUMNS}"
        for match in _UNWANTED.finditer(line):
            around = line[match.start() - 1 : match.start()] + line[match.end() : match.end() + 1]
            if around not in _QUOTES:
                yield path, number, f"unwanted word: {match[0]}"


def _is_test_data(path: str, line: str) -> bool:
    """True for a row of test data: a literal or a `pytest.param(...)` that fills its line."""
    text = line.strip().removesuffix(",")
    if not path.startswith("tests/") or text.startswith('"""'):
        return False
    try:
        row = ast.parse(text, mode="eval").body
    except SyntaxError:
        return False
    return isinstance(row, _ROWS) or text.startswith("pytest.param(")


def _tree_violations(path: str, tree: ast.Module) -> Iterator[_Violation]:
    name = PurePosixPath(path)
    is_test = name.name.startswith("test_")
    if not is_test and not ast.get_docstring(tree):
        yield path, 1, "module without a docstring"
    if {name.stem, name.parent.name} & _ANYTHING:
        yield path, 1, "module name that anything would fit under"
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield from _function_violations(path, node, is_test)
        for line, text in _docstrings(node):
            if match := _OPENING.match(text):
                yield path, line, f"docstring that begins with {match[1]}"


def _function_violations(
    path: str, node: ast.FunctionDef | ast.AsyncFunctionDef, is_test: bool
) -> Iterator[_Violation]:
    length = (node.end_lineno or node.lineno) - node.lineno + 1
    if length > FUNCTION_LINES:
        yield path, node.lineno, f"function of {length} lines, more than {FUNCTION_LINES}"
    if is_test and node.name.startswith("test_") and not ast.get_docstring(node):
        yield path, node.lineno, f"test without a docstring: {node.name}"


def _docstrings(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Strings that stand alone: docstrings, and those below an attribute or a constant."""
    body = getattr(node, "body", None)
    for statement in body if isinstance(body, list) else ():
        match statement:
            case ast.Expr(value=ast.Constant(value=str(text), lineno=line)):
                yield line, text


def _crowded_folders(paths: Iterable[str]) -> Iterator[_Violation]:
    counts = Counter(
        str(PurePosixPath(path).parent)
        for path in paths
        if path.startswith(f"{PACKAGE}/") and not path.endswith("/__init__.py")
    )
    for folder, count in counts.items():
        if count > FOLDER_MODULES:
            yield folder, 1, f"folder of {count} modules, more than {FOLDER_MODULES}"


def _repeated_classes(trees: Mapping[str, ast.Module]) -> Iterator[_Violation]:
    """Public classes of the package that share their name with another one."""
    places = defaultdict(list)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append((path, node.lineno))
    for name, defined in places.items():
        inside = [place for place in defined if place[0].startswith(f"{PACKAGE}/")]
        if len(inside) > 1:
            for path, line in inside:
                yield path, line, f"class name used {len(inside)} times in the package: {name}"


def read_sources(root: Path) -> dict[str, str]:
    """Read every module that was written by hand."""
    paths = (path for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    return {
        name: path.read_text(encoding="utf-8")
        for path in sorted(paths)
        if not (name := path.relative_to(root).as_posix()).startswith(f"{GENERATED}/")
    }


def main() -> int:
    """Print the violations of the project; 1 if there are any."""
    found = violations(read_sources(ROOT))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
