"""Schemas and change event headers, as all decoders of events read them. No I/O, no Spark."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.change_bitmaps import Layout, field_names
from airflow_provider_sfevents.spark.schema.field_types import record_fields, without_logical_types

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER = "ChangeEventHeader"
BITMAPS = ("changedFields", "nulledFields", "diffFields")
_SCHEMAS_KEPT = 256  # an executor's Python runs many tasks, nearly all with the same few schemas


class UndecodableError(Exception):
    """An event cannot be decoded; the message is the reason in the quarantine table."""


@lru_cache(maxsize=_SCHEMAS_KEPT)
def parsed(schema_json: str) -> Any:
    """Parse a schema as fastavro and the validation use it, without logical types.

    :raises ValueError: it is no Avro schema.
    """
    from fastavro import parse_schema
    from fastavro.schema import SchemaParseException, UnknownType

    raw = json.loads(schema_json)
    try:
        return parse_schema(without_logical_types(raw))
    except (SchemaParseException, UnknownType) as error:
        raise ValueError(f"it is not an Avro schema: {error}") from error


def bitmap_layout(schema_json: str) -> Layout:
    """Fields and members that the bits of this schema's bitmaps stand for."""
    fields = record_fields(json.loads(schema_json))
    return tuple((name, kind.member_names()) for name, kind in fields)


@lru_cache(maxsize=_SCHEMAS_KEPT)
def names_of_bitmaps(schema_json: str) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """Return a function that makes field names of the bitmaps of one list; it may raise ValueError.

    It has a cache, because few combinations of fields make up most changes.
    """
    layout = bitmap_layout(schema_json)

    @lru_cache(maxsize=4096)
    def names(elements: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(field_names(elements, layout))

    return names
