"""Decode an event's payload with its own schema, to a record or to a reason. No I/O, no Spark.

1. A payload is Avro binary without its schema. It has to be read to its last byte: bytes that are
   left over mean that it was written with another schema, and its values would be wrong.
2. fastavro reads more than Avro allows: branch -1 of a union as the last one, any byte as a truth
   value, 64 bits as an int. So decoded payloads are validated, too (`avro_validation`).
3. If the items of a list take no bytes (`payload_bounds`), the validation comes first, and fastavro
   reads valid payloads only.
"""

from __future__ import annotations

import io
import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.change_bitmaps import Layout, field_names
from airflow_provider_sfevents.spark.avro.avro_validation import readable
from airflow_provider_sfevents.spark.schema.field_types import record_fields, without_logical_types
from airflow_provider_sfevents.staging.payload_bounds import (
    MOST_ITEMS_WITHOUT_BYTES,
    has_items_without_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

HEADER = "ChangeEventHeader"
BITMAPS = ("changedFields", "nulledFields", "diffFields")
_REASON_LENGTH = 500
_SCHEMAS_KEPT = 256  # an executor's Python runs many tasks, nearly all with the same few schemas
_UNLAWFUL = (
    "the payload is not Avro of the event's schema: it has a union branch or enum symbol below 0, "
    "a truth value that is neither 0 nor 1, or a number of more bits than its type"
)
_UNBOUNDED = (
    "the payload is not Avro of the event's schema, or its lists have more than "
    f"{MOST_ITEMS_WITHOUT_BYTES} items that take no bytes"
)
# fastavro's errors name the stream's address in memory; an event has the same reason each time.
_ADDRESS = re.compile(r"( from)? <[^<>]* at 0x[0-9a-f]+>")


class UndecodableError(Exception):
    """An event cannot be decoded; the message is the reason in the quarantine table."""


class Decoder:
    """Decoder of events of one schema.

    :raises ValueError: the text is no Avro schema.
    """

    def __init__(self, schema_json: str) -> None:
        from fastavro import schemaless_reader

        self._schema = parsed(schema_json)
        self._read = schemaless_reader
        self._names = names_of_bitmaps(schema_json)
        self._is_bounded = not has_items_without_bytes(self._schema)

    def decode(self, payload: bytes) -> dict[str, Any]:
        """Decode one event; its header has field names in place of bitmaps.

        :raises UndecodableError: with the reason.
        """
        records, _, reasons = self.decode_all([payload])
        if reasons:
            raise UndecodableError(reasons[0])
        return records[0]

    def decode_all(
        self, payloads: Sequence[bytes], *, lawful: bool = False
    ) -> tuple[list[dict[str, Any]], list[int], dict[int, str]]:
        """Return records, their indexes among the payloads, and the reasons of the other payloads.

        :param lawful: the payloads are known to be valid, so that they are not validated again.
        """
        records: dict[int, dict[str, Any]] = {}
        wanted: Sequence[int] = range(len(payloads))
        reasons: dict[int, str] = {}
        if not self._is_bounded:
            wanted, lawful = readable(self._schema, payloads), True
            reasons = dict.fromkeys(set(range(len(payloads))).difference(wanted), _UNBOUNDED)
        for index in wanted:
            try:
                records[index] = self._record(payloads[index])
            except UndecodableError as undecodable:
                reasons[index] = str(undecodable)
        for index in () if lawful else self._unlawful(payloads, [*records]):
            del records[index]
            reasons[index] = _UNLAWFUL
        return [*records.values()], [*records], reasons

    def _record(self, payload: bytes) -> dict[str, Any]:
        stream = io.BytesIO(payload)
        try:
            record: dict[str, Any] = self._read(stream, self._schema, None)
        except Exception as error:  # any error is a reason for this event alone
            raise UndecodableError(_reason(error)) from error
        left = len(payload) - stream.tell()
        if left:
            raise UndecodableError(
                f"{left} of {len(payload)} bytes are left over after decoding with the event's "
                "schema"
            )
        header = record.get(HEADER)
        if isinstance(header, dict):
            self._name_fields(header)
        return record

    def _unlawful(self, payloads: Sequence[bytes], decoded: Sequence[int]) -> set[int]:
        if not decoded:
            return set()
        lawful = readable(self._schema, [payloads[index] for index in decoded])
        return set(decoded).difference(decoded[index] for index in lawful)

    def _name_fields(self, header: dict[str, Any]) -> None:
        for key in BITMAPS:
            if not header.get(key):
                continue
            try:
                header[key] = list(self._names(tuple(header[key])))
            except ValueError as error:
                raise UndecodableError(f"{key}: {error}"[:_REASON_LENGTH]) from error


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


def _reason(error: Exception) -> str:
    match error:
        case EOFError():
            said = "the payload ends before the event's schema does"
        case IndexError():
            said = (
                "the payload names a union branch or enum symbol that the event's schema does not "
                "have"
            )
        case UnicodeDecodeError():
            said = "the payload holds text that is not UTF-8"
        case _:
            said = "the payload does not fit the event's schema"
    detail = _ADDRESS.sub("", str(error))
    return f"{said} ({type(error).__name__}: {detail})"[:_REASON_LENGTH]
