"""What a payload means, one at a time: the decoder that the others have to agree with, and that has the last word on each bad event.

Whatever decodes faster hands over here what it is not sure of, and takes from here the reason of what cannot be decoded.
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
    """What came of some payloads.

    :param arrays: one per column, over the payloads that decode.
    :param rows: the index each of them had, ascending.
    :param times: when each happened, in milliseconds since 1970 (int64); null where that cannot be read.
    :param reasons: of the other payloads, by index.
    """

    arrays: list[pa.Array]
    rows: Sequence[int]
    times: pa.Array
    reasons: dict[int, str] = field(default_factory=dict)


class PayloadDecoder(Protocol):
    """Decodes payloads of one schema to the columns of its event type."""

    def __call__(self, payloads: Sequence[bytes]) -> Decoded: ...


class Reference:
    """Decodes with fastavro, record by record.

    :param columns: that its event type has in the table.
    """

    def __init__(self, schema_json: str, columns: Sequence[Column]) -> None:
        self._decoder = Decoder(schema_json)
        self._columns = columns

    def __call__(self, payloads: Sequence[bytes], *, lawful: bool = False) -> Decoded:
        """:param lawful: as of `Decoder.decode_all`."""
        import pyarrow as pa

        records, good, reasons = self._decoder.decode_all(payloads, lawful=lawful)
        arrays, fitting, misfits = build_columns(records, self._columns)
        reasons |= {good[index]: reason for index, reason in misfits.items()}
        times = [_event_time(records[index]) for index in fitting]
        return Decoded(
            arrays=arrays,
            rows=[good[index] for index in fitting],
            times=pa.array(times, pa.int64()),
            reasons=reasons,
        )


def _event_time(record: dict[str, Any]) -> int | None:
    """When the change was committed, or the event created; None where that cannot be read."""
    header = record.get(HEADER)
    value = header.get("commitTimestamp") if isinstance(header, dict) else record.get("CreatedDate")
    readable = type(value) is int and FIRST_INSTANT_MS <= value <= LAST_INSTANT_MS
    return value if readable else None
