"""Reference decoder: fastavro, one payload at a time. No I/O, no Spark.

Faster decoders must agree with it. It decides about each payload that they cannot verify, and finds
the reasons of undecodable ones.

1. A payload is Avro binary without its schema. It has to be read to its last byte: bytes that are
   left over mean that it was written with another schema, and its values would be wrong.
2. fastavro reads more than Avro allows: branch -1 of a union as the last one, any byte as a truth
   value, 64 bits as an int. So decoded payloads are validated, too (`avro_validation`).
3. If the items of a list take no bytes (`payload_bounds`), the validation comes first, and fastavro
   reads valid payloads only.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from airflow_provider_sfevents.spark.avro.arrow_columns import (
    FIRST_INSTANT_MS,
    LAST_INSTANT_MS,
    build_columns,
)
from airflow_provider_sfevents.spark.avro.avro_validation import readable
from airflow_provider_sfevents.spark.avro.decode import (
    BITMAPS,
    HEADER,
    UndecodableError,
    names_of_bitmaps,
    parsed,
)
from airflow_provider_sfevents.staging.payload_bounds import (
    MOST_ITEMS_WITHOUT_BYTES,
    has_items_without_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_sfevents.spark.schema.field_types import Column

    PayloadDecoder = Callable[[Sequence[bytes]], "Decoded"]
    """Decoder of payloads of one schema to the columns of its event type."""

_REASON_LENGTH = 500
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """Result of decoding payloads.

    :param arrays: one per column, over the payloads that decode.
    :param rows: their indexes among the payloads, ascending.
    :param times: time of each event in milliseconds since 1970 (int64); null if it is not readable.
    :param reasons: of the other payloads, by index.
    """

    arrays: list[pa.Array]
    rows: Sequence[int]
    times: pa.Array
    reasons: dict[int, str] = field(default_factory=dict)


class Reference:
    """Decoder with fastavro, record by record.

    :param columns: of the event type in the table.
    :raises ValueError: the text is no Avro schema.
    """

    def __init__(self, schema_json: str, columns: Sequence[Column]) -> None:
        from fastavro import schemaless_reader

        self._schema = parsed(schema_json)
        self._read = schemaless_reader
        self._names = names_of_bitmaps(schema_json)
        self._is_bounded = not has_items_without_bytes(self._schema)
        self._columns = columns

    def __call__(self, payloads: Sequence[bytes], *, lawful: bool = False) -> Decoded:
        """Decode payloads.

        :param lawful: as of `decode_all`.
        """
        records, good, reasons = self.decode_all(payloads, lawful=lawful)
        arrays, fitting, misfits = build_columns(records, self._columns)
        reasons |= {good[index]: reason for index, reason in misfits.items()}
        times = [event_time(records[index]) for index in fitting]
        return Decoded(
            arrays=arrays,
            rows=[good[index] for index in fitting],
            times=pa.array(times, pa.int64()),
            reasons=reasons,
        )

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


def event_time(record: dict[str, Any]) -> int | None:
    """Commit time of a change, or creation time of another event; None if it is not readable."""
    header = record.get(HEADER)
    value = header.get("commitTimestamp") if isinstance(header, dict) else record.get("CreatedDate")
    return readable_time(value)


def readable_time(value: Any) -> int | None:
    """Return milliseconds since 1970 that columns of times can hold; None for any other value."""
    readable = type(value) is int and FIRST_INSTANT_MS <= value <= LAST_INSTANT_MS
    return value if readable else None


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
