"""Encode and decode bitmaps of fields: changedFields, nulledFields and diffFields.

Source: Pub/Sub API guide, "Event Deserialization Considerations". A top-level element is hex with
its least significant bit for field 0; `<p>-0x<hex>` is the same for the members of the compound at
position p. Upper case, an even number of digits, as short as possible; the top-level element comes
first, because one client requires it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Schema = dict[str, Any]


def to_hex(positions: Iterable[int]) -> str:
    """Bitmap with the bits at these positions set."""
    digits = f"{sum(1 << position for position in set(positions)):X}"
    return "0x" + digits.zfill(len(digits) + len(digits) % 2)


def positions(bitmap: str) -> list[int]:
    """Positions of the bits that are set."""
    value = int(bitmap, 16)
    return [bit for bit in range(value.bit_length()) if value >> bit & 1]


def encode(schema: Schema, names: Iterable[str]) -> list[str]:
    """Bitmaps of these fields: `Industry`, or `BillingAddress.City` for a member of a compound.

    :raises ValueError: the schema has no such field.
    """
    top: set[int] = set()
    children: dict[int, set[int]] = {}
    for name in names:
        parent, _, child = name.partition(".")
        at = _index(schema["fields"], parent, name)
        if child:
            members = compounds(schema).get(at, {"fields": []})["fields"]
            children.setdefault(at, set()).add(_index(members, child, name))
        else:
            top.add(at)
    # An element of members alone is legal, but Salesforce's Node client ignores it.
    first = [to_hex(top)] if top or children else []
    return first + [f"{at}-{to_hex(bits)}" for at, bits in sorted(children.items())]


def decode(schema: Schema, bitmaps: Sequence[str]) -> list[str]:
    """Field names of these bitmaps, top-level fields first."""
    fields, inside = schema["fields"], compounds(schema)
    names: list[str] = []
    for element in bitmaps:
        parent, dash, bitmap = element.rpartition("-")
        if not dash:
            names += [fields[at]["name"] for at in positions(bitmap)]
        else:
            at = int(parent)
            names += [
                f"{fields[at]['name']}.{inside[at]['fields'][bit]['name']}"
                for bit in positions(bitmap)
            ]
    return names


def compounds(schema: Schema) -> dict[int, Schema]:
    """Record type of each compound field, by the position of the field.

    A record that was defined earlier may be referenced by name only.
    """
    named: dict[str, Schema] = {}
    found: dict[int, Schema] = {}
    for at, field in enumerate(schema["fields"]):
        branches = field["type"] if isinstance(field["type"], list) else []
        for branch in branches:
            if isinstance(branch, dict) and branch["type"] == "record":
                named[branch["name"]] = found[at] = branch
            elif isinstance(branch, str) and branch.rpartition(".")[2] in named:
                found[at] = named[branch.rpartition(".")[2]]
    return found


def _index(fields: Sequence[Schema], name: str, whole: str) -> int:
    for at, field in enumerate(fields):
        if field["name"] == name:
            return at
    raise ValueError(
        f"field {whole!r} is not in the schema; it has "
        f"{', '.join(f['name'] for f in fields) or 'no members'}"
    )
