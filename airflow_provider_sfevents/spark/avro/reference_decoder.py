"""Reference decoder: fastavro, one payload at a time.

Faster decoders must agree with it. It decides about each payload that they cannot verify, and finds
the reasons of undecodable ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents.spark.avro.arrow_columns import (
    FIRST_INSTANT_MS,
    LAST_INSTANT_MS,
    build_columns,
)
from airflow_provider_sfevents.spark.avro.decode import HEADER, Decoder

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from airflow_provider_sfevents.spark.schema.field_types import Column


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


class PayloadDecoder(Protocol):
    """Decoder of payloads of one schema to the columns of its event type."""

    def __call__(self, payloads: Sequence[bytes]) -> Decoded: ...


class Reference:
    """Decoder with fastavro, record by record.

    :param columns: of the event type in the table.
    """

    def __init__(self, schema_json: str, columns: Sequence[Column]) -> None:
        self._decoder = Decoder(schema_json)
        self._columns = columns

    def __call__(self, payloads: Sequence[bytes], *, lawful: bool = False) -> Decoded:
        """Decode payloads.

        :param lawful: as of `Decoder.decode_all`.
        """
        import pyarrow as pa

        records, good, reasons = self._decoder.decode_all(payloads, lawful=lawful)
        arrays, fitting, misfits = build_columns(records, self._columns)
        reasons |= {good[index]: reason for index, reason in misfits.items()}
        times = [event_time(records[index]) for index in fitting]
        return Decoded(
            arrays=arrays,
            rows=[good[index] for index in fitting],
            times=pa.array(times, pa.int64()),
            reasons=reasons,
        )


def event_time(record: dict[str, Any]) -> int | None:
    """Commit time of a change, or creation time of another event; None if it is not readable."""
    header = record.get(HEADER)
    value = header.get("commitTimestamp") if isinstance(header, dict) else record.get("CreatedDate")
    return readable_time(value)


def readable_time(value: Any) -> int | None:
    """Return milliseconds since 1970 that columns of times can hold; None for any other value."""
    readable = type(value) is int and FIRST_INSTANT_MS <= value <= LAST_INSTANT_MS
    return value if readable else None
