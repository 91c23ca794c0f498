"""A change event's bitmaps to field names, in Spark's own expressions.

What is not plainly a bitmap of this schema gives a null among the names: the reference decoder then decides about the event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.spark.bitmaps import Layout

_DIGITS = "0123456789ABCDEF"
_BITMAP = r"^((0|[1-9][0-9]*)-)?0x[0-9A-Fa-f]+\z"


def field_names(elements: str, layout: Layout) -> str:
    """SQL of the names of the fields whose bits are set; null for null."""
    top = [name for name, _ in layout]
    below = {
        str(index): [f"{name}.{member}" for member in members]
        for index, (name, members) in enumerate(layout)
        if members
    }
    named = f"flatten(transform({elements}, element -> {_names('element', top, below)}))"
    return f"CASE WHEN size({elements}) = 0 THEN {elements} ELSE {named} END"


def has_unknown(names: str) -> str:
    return f"exists({names}, name -> name IS NULL)"


def _names(element: str, top: Sequence[str], below: dict[str, list[str]]) -> str:
    own = _names_of_digits(element, _table(top))
    if below:
        pairs = ", ".join(f"'{key}', {_table(names)}" for key, names in below.items())
        of_parent = f"try_element_at(map({pairs}), substring_index({element}, '-', 1))"
        of_member = _names_of_digits(element, of_parent)
        own = f"CASE WHEN contains({element}, '-') THEN {of_member} ELSE {own} END"
    known = f"CASE WHEN {element} RLIKE r'{_BITMAP}' THEN {own} END"
    return f"coalesce({known}, array(CAST(NULL AS string)))"


def digit_names(names: Sequence[str]) -> list[list[str] | None]:
    """For each place of a bitmap from the right, and each hexadecimal digit there, the names of its bits; None where one has no name."""
    found: list[list[str] | None] = []
    for place in range(0, len(names), 4):
        here = names[place : place + 4]
        for digit in range(16):
            bits = [bit for bit in range(4) if digit >> bit & 1]
            known = all(bit < len(here) for bit in bits)
            found.append([here[bit] for bit in bits] if known else None)
    return found


def _table(names: Sequence[str]) -> str:
    rows = ", ".join(
        "NULL" if some is None else f"array({', '.join(map(_text, some))})"
        for some in digit_names(names)
    )
    return f"CAST(array({rows}) AS array<array<string>>)"


def _text(name: str) -> str:
    """A field's name, of which Avro allows letters, digits and underscores only, as a literal."""
    return f"'{name}'"


def _names_of_digits(element: str, table: str) -> str:
    """Null where a digit, or its place, is not in the table."""
    digits = f"upper(substring_index({element}, '0x', -1))"
    digit = f"substring({digits}, length({digits}) - place, 1)"
    at = f"get({table}, place * 16 + instr('{_DIGITS}', {digit}) - 1)"
    return f"flatten(transform(sequence(0, length({digits}) - 1), place -> {at}))"
