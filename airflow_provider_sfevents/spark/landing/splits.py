"""Splits of a batch: consecutive staged files that one Spark task reads.

The fetch closes a file after seconds, so that little is lost with it, and a batch has many small
files. A task, each file it writes and each date of these cost a tenth of a second, whatever they
hold. Splits follow from the manifest alone, because landed files are named after them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.staging.manifest import Part

SPLIT_EVENTS = 250_000
"""Events that are worth a task: two seconds of decoding and writing."""

SPLIT_BYTES = 128 * 2**20
"""Payload bytes that are worth a task: what Spark gives one by default."""

MOST_SPLITS = 64
"""Splits of a batch, of which Spark plans one by one and sends the plans of all with each task; of
a larger batch each is larger.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Consecutive staged files of a batch."""

    parts: tuple[Part, ...]

    @property
    def first_ordinal(self) -> int:
        return self.parts[0].first_ordinal

    @property
    def schemas(self) -> frozenset[str]:
        """Ids of the schemas its events were written with."""
        return frozenset(schema for part in self.parts for schema in part.schemas)


def splits_of(parts: Sequence[Part]) -> tuple[Split, ...]:
    """Group a batch's staged files, in order, into at most `MOST_SPLITS` + 1 splits."""
    # In one measure for both, and whole numbers: the result has to be the same wherever it is
    # worked out.
    weights = [max(part.events * SPLIT_BYTES, part.bytes * SPLIT_EVENTS) for part in parts]
    full = max(SPLIT_EVENTS * SPLIT_BYTES, -(-sum(weights) // MOST_SPLITS))
    found: list[list[Part]] = []
    filled = full
    for part, weight in zip(parts, weights, strict=True):
        if filled >= full:
            found.append([])
            filled = 0
        found[-1].append(part)
        filled += weight
    return tuple(Split(parts=tuple(one)) for one in found)
