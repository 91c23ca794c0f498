"""An event's bytes and its own schema, to its record or to the reason why not. No I/O, no Spark; needs fastavro and numpy.

A payload is Avro binary without its schema. It decodes only if it decodes to its last byte: what is left over means that it was
written with another schema, and values read with the wrong schema look like values. fastavro reads more than Avro allows: it takes
branch -1 of a union for the last one, any byte for a truth value, 64 bits for an int. So what it has read is walked through as well.
Where a list's items take no bytes (`payload_bounds`), the walk comes first, and fastavro reads only
what it has led to its end.
"""

from __future__ import annotations

import io
import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.spark.avro.avro_validation import readable
from airflow_provider_sfevents.spark.avro.bitmaps import Layout, field_names
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
_SCHEMAS_KEPT = (
    256  # an executor's Python goes from task to task, and nearly all of them have the same few
)
_UNLAWFUL = (
    "the payload is not Avro of the event's schema: it has a union branch or enum symbol below 0, a truth value that is neither 0 nor 1, "
    "or a number of more bits than its type"
)
_UNBOUNDED = (
    "the payload is not Avro of the event's schema, or its lists have more than "
    f"{MOST_ITEMS_WITHOUT_BYTES} items that take no bytes"
)
# fastavro names the stream it reads from, by where that lies in memory; the same event shall have the same reason each time.
_ADDRESS = re.compile(r"( from)? <[^<>]* at 0x[0-9a-f]+>")


class UndecodableError(Exception):
    """An event that cannot be decoded; the message is the reason that goes to quarantine."""


class Decoder:
    """Decodes events written with one schema.

    :raises ValueError: when made from a text that is no Avro schema.
    """

    def __init__(self, schema_json: str) -> None:
        from fastavro import schemaless_reader

        self._schema = parsed(schema_json)
        self._read = schemaless_reader
        self._names = names_of_bitmaps(schema_json)
        self._is_bounded = not has_items_without_bytes(self._schema)

    def decode(self, payload: bytes) -> dict[str, Any]:
        """Make the event's record; in its change event header names stand in place of bitmaps.

        :raises UndecodableError: with the reason.
        """
        records, _, reasons = self.decode_all([payload])
        if reasons:
            raise UndecodableError(reasons[0])
        return records[0]

    def decode_all(
        self, payloads: Sequence[bytes], *, lawful: bool = False
    ) -> tuple[list[dict[str, Any]], list[int], dict[int, str]]:
        """Make records; also the index each had among the payloads, and the reasons of those that have none.

        :param lawful: they are known to be Avro of the schema, so that they need not be walked through.
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
        except (
            Exception
        ) as error:  # whatever the bytes of one event do to the decoder stays that event's matter
            raise UndecodableError(_reason(error)) from error
        left = len(payload) - stream.tell()
        if left:
            raise UndecodableError(
                f"{left} of {len(payload)} bytes are left over after decoding with the event's schema"
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
    """The schema as fastavro reads and `walk` walks with it, its logical types left out.

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
    """What the bits of this schema's bitmaps stand for."""
    fields = record_fields(json.loads(schema_json))
    return tuple((name, kind.member_names()) for name, kind in fields)


@lru_cache(maxsize=_SCHEMAS_KEPT)
def names_of_bitmaps(schema_json: str) -> Callable[[tuple[str, ...]], tuple[str, ...]]:
    """What makes field names of the bitmaps of one list, for events of this schema; it raises ValueError where it cannot.

    It remembers: few combinations of fields make up most changes, so that most bitmaps need not be read twice.
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
            said = "the payload names a union branch or enum symbol that the event's schema does not have"
        case UnicodeDecodeError():
            said = "the payload holds text that is not UTF-8"
        case _:
            said = "the payload does not fit the event's schema"
    detail = _ADDRESS.sub("", str(error))
    return f"{said} ({type(error).__name__}: {detail})"[:_REASON_LENGTH]
