"""The same decoding by `pyruhvro`, a compiled Avro-to-Arrow decoder, many times faster; it is an extra (`accelerator`).

It is trusted with nothing it has not shown:

1. *Proof.* What it decodes is encoded again, and has to give the payload's very bytes. That is cheap, and exact: bytes left over,
   numbers cut off, a schema that is not the event's all show. Rows that fail it, like rows with a value their column cannot hold,
   are doubtful, and the reference decoder decides about each.
2. *Walk.* One payload that it cannot read fails a whole chunk. Then the schema is walked through all payloads of the chunk at once,
   the reference decides about those it does not lead to their last byte, and the others are decoded again.
3. *Trial.* The first rows of each schema are decoded by both. Where they differ, the reference does that schema.
"""

from __future__ import annotations

import importlib
import json
import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from airflow_provider_sfevents.spark.decoders.choice import ACCELERATOR
from airflow_provider_sfevents.spark.decoders.reference import Decoded, Reference
from airflow_provider_sfevents.spark.fieldtypes import without_logical_types
from airflow_provider_sfevents.spark.walk import readable

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from airflow_provider_sfevents.spark.fieldtypes import Column

logger = logging.getLogger(__name__)

_TRIAL_ROWS = 16


class Accelerated:
    """Decodes whole chunks, and proves each row.

    :param columns: ones that can be made from the schema (`conversion.unfit`).
    :param module: `pyruhvro`, or what stands for it.
    :ivar trusted: its first rows were what the reference makes of them, or have not come yet.
    """

    def __init__(self, schema_json: str, columns: Sequence[Column], module: Any = None) -> None:
        from fastavro import parse_schema

        from airflow_provider_sfevents.spark.decode import names_of_bitmaps

        avro = without_logical_types(json.loads(schema_json))
        self._walked = parse_schema(avro)
        self._schema = json.dumps(avro)
        self._columns = columns
        self._names = names_of_bitmaps(schema_json)
        self._reference = Reference(schema_json, columns)
        self._module = importlib.import_module(ACCELERATOR) if module is None else module
        self._tried = False
        self.trusted = True

    def __call__(self, payloads: Sequence[bytes]) -> Decoded:
        if not self.trusted:
            return self._reference(payloads)
        decoded = self._decode(payloads)
        if not self._tried and len(decoded.rows):
            self._tried = True
            self.trusted = self._agrees(payloads, decoded)
            if not self.trusted:
                logger.warning(
                    "%s decodes events of this schema otherwise than fastavro, which decodes them instead: %s",
                    ACCELERATOR,
                    self._schema[:200],
                )
                return self._reference(payloads)
        return decoded

    def _agrees(self, payloads: Sequence[bytes], decoded: Decoded) -> bool:
        rows = decoded.rows[:_TRIAL_ROWS]
        reference = self._reference([payloads[row] for row in rows])
        pairs = [*zip(decoded.arrays, reference.arrays, strict=True)]
        pairs.append((decoded.times, reference.times))
        # As text: to itself, not a number is unequal.
        return all(
            one.type == other.type and repr(one[: len(rows)].to_pylist()) == repr(other.to_pylist())
            for one, other in pairs
        )

    def _decode(self, payloads: Sequence[bytes]) -> Decoded:
        rows: Sequence[int] = range(len(payloads))
        kept = payloads
        batch = self._read(payloads)
        if batch is None:
            rows = readable(self._walked, payloads)
            kept = [payloads[row] for row in rows]
            batch = self._read(kept) if rows else None
        if batch is None:
            return self._reference(payloads)
        try:
            return self._proved(batch, kept, rows, payloads)
        except BaseException as error:
            if not _is_of_a_chunk(error):
                raise
            # Whatever the accelerator makes of some payloads, the reference can tell.
            logger.warning("Decoded a chunk record by record.", exc_info=True)
            return self._reference(payloads)

    def _read(self, payloads: Sequence[bytes]) -> pa.RecordBatch | None:
        """Decode a chunk; None where any of its payloads cannot be."""
        try:
            return self._module.deserialize_array([*payloads], self._schema)
        except BaseException as error:
            if not _is_of_a_chunk(error):
                raise
            return None

    def _proved(
        self,
        batch: pa.RecordBatch,
        kept: Sequence[bytes],
        rows: Sequence[int],
        payloads: Sequence[bytes],
    ) -> Decoded:
        """:param kept: the payloads that make up the batch, and the rows they are of all."""
        import pyarrow as pa
        import pyarrow.compute as pc

        from airflow_provider_sfevents.spark.decoders.conversion import Conversion

        (encoded,) = self._module.serialize_record_batch(batch, self._schema, 1)
        proved = pc.equal(encoded, pa.array(kept, encoded.type))
        if proved.true_count < len(kept):
            batch, rows = batch.filter(proved), _among(rows, proved)
        conversion = Conversion(batch, self._names)
        arrays, times = conversion.columns(self._columns), conversion.times()
        doubtful = conversion.doubtful()
        if doubtful is not None:
            sure = pc.invert(doubtful)
            arrays, times = [array.filter(sure) for array in arrays], times.filter(sure)
            rows = _among(rows, sure)
        decoded = Decoded(arrays=arrays, rows=rows, times=times)
        if len(rows) == len(payloads):
            return decoded
        return self._completed(decoded, payloads)

    def _completed(self, decoded: Decoded, payloads: Sequence[bytes]) -> Decoded:
        """Add what the reference makes of the rest."""
        import pyarrow as pa

        left = np.ones(len(payloads), bool)
        left[np.asarray(decoded.rows, np.int64)] = False
        rest: list[int] = np.flatnonzero(left).tolist()
        judged = self._reference([payloads[row] for row in rest])
        reasons = {rest[index]: reason for index, reason in judged.reasons.items()}
        if not judged.rows:
            return Decoded(
                arrays=decoded.arrays, rows=decoded.rows, times=decoded.times, reasons=reasons
            )
        both = [*decoded.rows, *(rest[index] for index in judged.rows)]
        order = pa.array(sorted(range(len(both)), key=both.__getitem__), pa.int64())
        joined: list[Any] = [
            pa.concat_arrays([one, other]).take(order)
            for one, other in zip(
                [*decoded.arrays, decoded.times], [*judged.arrays, judged.times], strict=True
            )
        ]
        return Decoded(arrays=joined[:-1], rows=sorted(both), times=joined[-1], reasons=reasons)


def _among(rows: Sequence[int], chosen: pa.BooleanArray) -> list[int]:
    found: list[int] = np.asarray(rows)[chosen.to_numpy(zero_copy_only=False)].tolist()
    return found


def _is_of_a_chunk(error: BaseException) -> bool:
    """Whether an error says no more than that some payloads cannot be decoded. A panic is no Exception, and has no public home."""
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
