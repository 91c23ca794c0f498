"""Bounds on the number of values in a payload, for every decoder of the worker and of Spark.

Values of nearly every type take at least a byte each, so a payload holds no more of them than it
has bytes. Two kinds of schemas are different, and Salesforce makes neither:

1. A list whose items take no bytes (nulls, records of nulls, `fixed` of size 0): four bytes can
   claim a million items, and a decoder that makes them runs out of memory. These items are counted.
2. A record that contains itself: a payload can be nested as deep as it has bytes, which overflows
   the stack of a recursive decoder. No table has a column for such a record either.
"""

from __future__ import annotations

from typing import Any

MOST_ITEMS_WITHOUT_BYTES = 1_000
"""Most items without bytes in all lists of one payload together."""


def has_items_without_bytes(schema: Any) -> bool:
    """Return whether a schema has a list whose items take no bytes.

    :param schema: as `fastavro.parse_schema` returns it: each reference has the type's full name.
    """
    return _walked(schema).has_items_without_bytes


def is_bounded(schema: Any) -> bool:
    """Return whether the number of bytes of a payload bounds the size of the decoded value.

    :param schema: as of `has_items_without_bytes`.
    """
    found = _walked(schema)
    return not (found.has_items_without_bytes or found.contains_itself)


def _walked(schema: Any) -> _Types:
    types = _Types()
    types.takes_no_bytes(schema)
    return types


class _Types:
    """One walk through a schema; remembers the named types."""

    def __init__(self) -> None:
        self.has_items_without_bytes = False
        self.contains_itself = False
        self._named: dict[str, bool | None] = {"null": True}

    def takes_no_bytes(self, avro: Any) -> bool:
        if isinstance(avro, list):
            for branch in avro:
                self.takes_no_bytes(branch)
            return False
        if isinstance(avro, str):
            found = self._named.get(avro, False)
            self.contains_itself |= found is None
            return bool(found)
        name = avro.get("name", "")
        self._named[name] = None  # its definition has not ended yet
        self._named[name] = found = self._complex(avro)
        return found

    def _complex(self, avro: dict[str, Any]) -> bool:
        match avro["type"]:
            case "record":
                # Every field is visited, as each may have a list in it.
                found = [self.takes_no_bytes(field["type"]) for field in avro["fields"]]
                return all(found)
            case "fixed":
                return bool(avro["size"] == 0)
            case "array":
                if self.takes_no_bytes(avro["items"]):
                    self.has_items_without_bytes = True
                return False
            case "map":
                self.takes_no_bytes(avro["values"])
                return False
            case "enum":
                return False
            case inner:
                return self.takes_no_bytes(inner)
