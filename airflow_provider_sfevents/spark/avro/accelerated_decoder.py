"""Decode payloads with `pyruhvro`, a compiled Avro-to-Arrow decoder; an extra (`accelerator`).

It is many times faster than fastavro, and each of its rows is verified:

1. *Proof.* The decoded rows are encoded again and must give the payload's bytes. That is cheap and
   exact: it finds bytes left over, truncated numbers and a wrong schema. Rows that fail the proof,
   and rows with a value that their column cannot hold, go to the reference decoder.
2. *Walk.* One payload that it cannot read fails a whole chunk. Then all payloads of the chunk are
   validated against the schema, the invalid ones go to the reference decoder, and the others are
   decoded again.
3. *Trial.* The first rows of each schema are decoded by both. If they differ, the reference decodes
   that schema.
"""

from __future__ import annotations

import importlib
import json
import logging
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_sfevents.spark.avro.arrow_conversion import Conversion
from airflow_provider_sfevents.spark.avro.avro_validation import readable
from airflow_provider_sfevents.spark.avro.decode import names_of_bitmaps, parsed
from airflow_provider_sfevents.spark.avro.decoder_needs import ACCELERATOR
from airflow_provider_sfevents.spark.avro.reference_decoder import Decoded, Reference
from airflow_provider_sfevents.spark.schema.field_types import without_logical_types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.spark.schema.field_types import Column

logger = logging.getLogger(__name__)

_TRIAL_ROWS = 16


class Accelerated:
    """Decoder of whole chunks that verifies each row.

    :param columns: ones that can be made from the schema (`arrow_conversion.unfit`).
    :param module: `pyruhvro`, or a stand-in.
    :ivar trusted: its first rows were equal to the reference's, or none have come yet.
    """

    def __init__(self, schema_json: str, columns: Sequence[Column], module: Any = None) -> None:
        self._walked = parsed(schema_json)
        self._schema = json.dumps(without_logical_types(json.loads(schema_json)))
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
                    "%s and fastavro decode events of this schema differently; fastavro decodes "
                    "them: %s",
                    ACCELERATOR,
                    self._schema[:200],
                )
                return self._reference(payloads)
        return decoded

    def _agrees(self, payloads: Sequence[bytes], decoded: Decoded) -> bool:
        rows = decoded.rows[:_TRIAL_ROWS]
        reference = self._reference([payloads[row] for row in rows], lawful=True)
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
            logger.warning("Decoded a chunk record by record.", exc_info=True)
            return self._reference(payloads)

    def _read(self, payloads: Sequence[bytes]) -> pa.RecordBatch | None:
        """Decode a chunk; None if any of its payloads cannot be decoded."""
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
        """Verify the rows of a batch, and let the reference decide about the others.

        :param kept: the payloads of the batch.
        :param rows: their indexes among all payloads.
        """
        (encoded,) = self._module.serialize_record_batch(batch, self._schema, 1)
        sure = pc.equal(encoded, pa.array(kept, encoded.type))
        # A row that is not proved may have any values here; it is left out at the end.
        conversion = Conversion(batch, self._names)
        arrays, times = conversion.columns(self._columns), conversion.times()
        doubtful = conversion.doubtful()
        if doubtful is not None:
            sure = pc.and_not(sure, doubtful)
        if len(kept) == len(payloads) == sure.true_count:
            return Decoded(arrays=arrays, rows=rows, times=times)
        return self._completed([*arrays, times], rows, sure, payloads)

    def _completed(
        self,
        arrays: Sequence[pa.Array],
        rows: Sequence[int],
        sure: pa.BooleanArray,
        payloads: Sequence[bytes],
    ) -> Decoded:
        """Keep the verified rows, and add those of the reference for the rest.

        :param arrays: columns, and the times.
        :param rows: index of the payload of each value.
        :param sure: which of the values are verified and stay.
        """
        # For each payload the index of its values, in these arrays or behind them; -1: none.
        places = np.full(len(payloads), -1, np.int64)
        proved = np.flatnonzero(sure.to_numpy(zero_copy_only=False))
        places[np.asarray(rows, np.int64)[proved]] = proved
        rest: list[int] = np.flatnonzero(places < 0).tolist()
        judged = self._reference([payloads[row] for row in rest])
        if judged.rows:
            joined = zip(arrays, [*judged.arrays, judged.times], strict=True)
            arrays = [pa.concat_arrays([one, other]) for one, other in joined]
            places[[rest[index] for index in judged.rows]] = np.arange(
                len(rows), len(rows) + len(judged.rows)
            )
        found = np.flatnonzero(places >= 0)
        taken = pa.array(places[found])
        *columns, times = (array.take(taken) for array in arrays)
        return Decoded(
            arrays=columns,
            rows=found.tolist(),
            times=times,
            reasons={rest[index]: reason for index, reason in judged.reasons.items()},
        )


def _is_of_a_chunk(error: BaseException) -> bool:
    """Return whether an error only says that some payloads cannot be decoded.

    A panic of Rust is no `Exception`, and its class has no public name.
    """
    return isinstance(error, Exception) or type(error).__name__ == "PanicException"
