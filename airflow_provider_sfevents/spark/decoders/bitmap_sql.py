"""A change event's bitmaps to field names, in Spark's own expressions.

What is not plainly a bitmap of this schema gives a null among the names: the reference decoder then decides about the event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from airflow_provider_sfevents.spark.bitmaps import Layout

_DIGITS = "0123456789ABCDEF"
_BITMAP = r"^((0|[1-9][0-9]*)-)?0x[0-9A-Fa-f]+\z"


def field_names(elements: Column, layout: Layout) -> Column:
    """Names of the fields whose bits are set; null for null."""
    from pyspark.sql import functions as F  # noqa: N812

    top = [name for name, _ in layout]
    below = {
        str(index): [f"{name}.{member}" for member in members]
        for index, (name, members) in enumerate(layout)
        if members
    }
    named = F.flatten(F.transform(elements, lambda element: _names(element, top, below)))
    return F.when(F.size(elements) == 0, elements).otherwise(named)


def has_unknown(names: Column) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    return F.exists(names, lambda name: name.isNull())


def _names(element: Column, top: Sequence[str], below: dict[str, list[str]]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    own = _names_of_digits(element, _table(top))
    if below:
        parents = F.create_map(
            *(part for key, names in below.items() for part in (F.lit(key), _table(names)))
        )
        of_parent = F.try_element_at(parents, F.substring_index(element, "-", 1))
        own = F.when(element.contains("-"), _names_of_digits(element, of_parent)).otherwise(own)
    unknown = F.array(F.lit(None).cast("string"))
    return F.coalesce(F.when(element.rlike(_BITMAP), own), unknown)


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


def _table(names: Sequence[str]) -> Column:
    from pyspark.sql import functions as F  # noqa: N812

    rows = [
        F.lit(None) if some is None else F.array(*map(F.lit, some)) for some in digit_names(names)
    ]
    return F.array(*rows).cast("array<array<string>>")


def _names_of_digits(element: Column, table: Column) -> Column:
    """Null where a digit, or its place, is not in the table."""
    from pyspark.sql import functions as F  # noqa: N812

    digits = F.upper(F.substring_index(element, "0x", -1))
    length = F.length(digits)

    def at(place: Column) -> Column:
        digit = F.substring(digits, length - place, F.lit(1))
        return F.get(table, place * 16 + F.instr(F.lit(_DIGITS), digit) - 1)

    return F.flatten(F.transform(F.sequence(F.lit(0), length - 1), at))
