"""The house rules, on sources that break them."""

from __future__ import annotations

import pytest

from scripts import house_rules
from scripts.house_rules import ROOT, read_sources, violations

MODULE = '"""A module."""\n'


def rules(source: str, path: str = "scripts/one.py") -> list[str]:
    """Violations of one module, without the path."""
    return [one.removeprefix(f"{path}:") for one in violations({path: source})]


def test_a_module_within_the_rules_has_no_violation() -> None:
    """A short module with a docstring and short functions passes."""
    assert rules(MODULE + 'def one() -> int:\n    """Return one."""\n    return 1\n') == []


def test_a_module_may_have_400_lines() -> None:
    """A module of 400 lines passes, and one more line is reported."""
    assert rules(MODULE + "\n" * 399) == []
    assert rules(MODULE + "\n" * 400) == ["401: module of 401 lines, more than 400"]


def test_a_function_may_have_60_lines() -> None:
    """A function of 60 lines passes, and one more line is reported where the function begins."""
    assert rules(MODULE + "def one():\n" + "    pass\n" * 59) == []
    assert rules(MODULE + "async def one():\n" + "    pass\n" * 60) == [
        "2: function of 61 lines, more than 60"
    ]


def test_a_line_may_have_100_columns() -> None:
    """A line of 100 columns passes, a longer one is reported, and one with a URL may be longer."""
    assert rules(f"{MODULE}# {'x' * 98}\n# https://{'x' * 98}\n") == []
    assert rules(f"{MODULE}# {'x' * 99}\n") == ["2: line of 101 columns, more than 100"]


def test_a_row_of_test_data_and_a_comment_for_linters_may_be_longer() -> None:
    """A literal that fills its line passes in tests only; a comment for linters never counts."""
    row = f'("one", "{"x" * 100}"),'
    assert rules(f"{MODULE}one = [\n{row}\n]\n", "tests/one.py") == []
    assert rules(f"{MODULE}one = [\n{row}\n]\n") == ["3: line of 112 columns, more than 100"]
    assert rules(f"{MODULE}one = '{'x' * 90}'  # noqa: S105  # type: ignore[misc]\n") == []
    assert len(rules(f'{MODULE}def one():\n    """{"x" * 99}"""\n', "tests/one.py")) == 1


def test_a_quoted_word_is_a_name() -> None:
    """A Unix user may have a name that would otherwise be an unwanted word."""
    user = "no" + "body"
    assert rules(f'{MODULE}# the user `{user}`\none = "{user}"\n') == []


@pytest.mark.parametrize("word", ["Some" + "body", "who" + "ever", "for " + "ever", "in " + "vain"])
def test_unwanted_words_are_reported_wherever_they_stand(word: str) -> None:
    """Docstrings, comments, strings and names are searched alike, in upper and lower case."""
    source = f'"""A module.\n\n{word} does it.\n"""\n# {word}\none = "It is {word}."\n'
    assert rules(source) == [f"{line}: unwanted word: {word}" for line in (3, 5, 6)]
    name = word.replace(" ", "_")
    assert rules(f"{MODULE}the_{name}_s = 1\n") == [f"2: unwanted word: {name}"]


@pytest.mark.parametrize(
    "word", ["What", "Which", "Who", "Where", "When", "How", "Whether", ":param"]
)
def test_docstrings_that_begin_with_a_question_word_or_a_field_are_reported(word: str) -> None:
    """Docstrings of modules, classes, functions and constants are checked alike."""
    doc = f'"""{word} it is."""\n'
    source = f"{doc}one = 1\n{doc}class Two:\n    {doc}    def three(self):\n        {doc}"
    assert rules(source) == [f"{line}: docstring that begins with {word}" for line in (1, 3, 5, 7)]


def test_question_words_inside_a_sentence_or_a_word_pass() -> None:
    """A question word is reported only as the whole first word."""
    assert rules('"""Whole batches, and when they are due."""\n') == []


def test_modules_and_tests_without_a_docstring_are_reported() -> None:
    """A test module may go without a docstring, while each test in it needs one."""
    assert rules("one = 1\n") == ["1: module without a docstring"]
    source = "def test_one():\n    pass\n\n\ndef two():\n    pass\n"
    assert rules(source, "tests/test_one.py") == ["1: test without a docstring: test_one"]


def test_module_names_that_fit_anything_are_reported() -> None:
    """A vague name of a module or of its folder is reported."""
    for path in ("scripts/utils.py", "scripts/helpers/one.py"):
        assert rules(MODULE, path) == ["1: module name that anything would fit under"]


def test_a_folder_of_the_package_may_have_16_modules() -> None:
    """Sixteen modules beside `__init__.py` pass, one more is reported; tests do not count."""
    names = ["__init__", *(f"one{number}" for number in range(16))]
    for folder in ("airflow_provider_sfevents/room", "tests/room"):
        assert violations({f"{folder}/{name}.py": MODULE for name in names}) == []
    crowd = {f"airflow_provider_sfevents/room/{name}.py": MODULE for name in [*names, "more"]}
    assert violations(crowd) == [
        "airflow_provider_sfevents/room:1: folder of 17 modules, more than 16"
    ]


def test_class_names_that_the_package_uses_twice_are_reported() -> None:
    """A public class name that the package uses twice is reported at both places."""
    source = MODULE + "class One:\n    pass\n\n\nclass _Two:\n    pass\n"
    first, second = "airflow_provider_sfevents/a.py", "airflow_provider_sfevents/b.py"
    assert violations({first: source, "tests/c.py": source}) == []
    assert violations({first: source, second: source}) == [
        f"{path}:2: class name used 2 times in the package: One" for path in (first, second)
    ]


def test_all_modules_but_generated_ones_are_read() -> None:
    """The rules are applied to this test and to the package, not to the code that protoc made."""
    sources = read_sources(ROOT)
    assert "tests/unit/scripts/test_house_rules.py" in sources
    assert f"{house_rules.PACKAGE}/exceptions.py" in sources
    assert not [path for path in sources if path.startswith(house_rules.GENERATED)]
