"""Decode the bitmaps of change events: `changedFields`, `nulledFields` and `diffFields`.

Each is a list of strings. `0x800002` is a bitmap over the event schema's own fields, with the most
significant byte first: bit 0, the least significant one, is `ChangeEventHeader`. `4-0x06` is a
bitmap over the members of the compound field at index 4. A compound of which only members changed
has no bit in the first bitmap (Pub/Sub API Developer Guide, "Event Deserialization
Considerations"). The indexes differ from org to org, so only the event's own schema decodes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Layout = tuple[tuple[str, tuple[str, ...]], ...]
"""The schema's fields in order, each with the names of its members; a plain field has none."""


def field_names(elements: Sequence[str], layout: Layout) -> list[str]:
    """Names of the fields whose bits are set, in the order of the elements and of the schema.

    Members are `Parent.Member`.

    :raises ValueError: an element is no bitmap, or has a bit without a field in the schema.
    """
    names: list[str] = []
    for element in elements:
        parent, dash, bitmap = element.rpartition("-")
        names += _member_names(int(parent), bitmap, layout) if dash else _top_names(bitmap, layout)
    return names


def set_bits(bitmap: str) -> list[int]:
    """Indexes of the set bits of `0x...`, ascending.

    :raises ValueError: it does not start with `0x`, or is no hexadecimal number.
    """
    if not bitmap.startswith("0x"):
        raise ValueError(f"{bitmap!r} is not a bitmap: it does not start with 0x")
    number = int(bitmap, 16)
    return [position for position in range(number.bit_length()) if number >> position & 1]


def _top_names(bitmap: str, layout: Layout) -> list[str]:
    bits = set_bits(bitmap)
    if bits and bits[-1] >= len(layout):
        raise ValueError(f"bitmap {bitmap} has bit {bits[-1]}, the schema has {len(layout)} fields")
    return [layout[bit][0] for bit in bits]


def _member_names(parent: int, bitmap: str, layout: Layout) -> list[str]:
    if not 0 <= parent < len(layout):
        raise ValueError(
            f"bitmap {parent}-{bitmap} is about field {parent}, the schema has {len(layout)} fields"
        )
    name, members = layout[parent]
    bits = set_bits(bitmap)
    if bits and bits[-1] >= len(members):
        raise ValueError(
            f"bitmap {parent}-{bitmap} has bit {bits[-1]}, {name} has {len(members)} members"
        )
    return [f"{name}.{members[bit]}" for bit in bits]
