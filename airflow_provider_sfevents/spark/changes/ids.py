"""Record ids of a change event: single records, wildcards, and forms that mean a whole entity.

Source: Change Data Capture Developer Guide, "Change Event Header Fields" (`001*`) and "Gap and
Overflow Events" (`000000000000000AAA`). The event bus spells ids in 18 characters; reports and old
tools in 15, which is why both are the same record here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

_SUFFIX = "ABCDEFGHIJKLMNOPQRSTUVWXYZ012345"
_SHORT = 15
_NO_RECORD = "0" * _SHORT


@dataclass(frozen=True, slots=True, kw_only=True)
class Addressed:
    """Records, prefixes and entity that a list of record ids names.

    :param records: single records in 18 characters, each once, in the order of the list.
    :param prefixes: of wildcards, without their `*`.
    :param whole: it names the entity itself: the id `000000000000000AAA`, an empty one, or none.
    """

    records: tuple[str, ...]
    prefixes: tuple[str, ...] = ()
    whole: bool = False


@lru_cache(maxsize=1024)  # the rules ask several times about one event
def addressed(record_ids: tuple[str, ...]) -> Addressed:
    """Sort a change event's record ids into single records, prefixes and the whole entity."""
    records: dict[str, None] = {}
    prefixes: dict[str, None] = {}
    whole = not record_ids
    for text in record_ids:
        if not text or text[:_SHORT] == _NO_RECORD:
            whole = True
        elif text.endswith("*"):
            prefixes[text[:-1]] = None
        else:
            records[long_id(text)] = None
    return Addressed(records=tuple(records), prefixes=tuple(prefixes), whole=whole)


def long_id(text: str) -> str:
    """Return the 18-character form of a 15-character id; any other text is returned unchanged.

    For each five characters, one added letter encodes which of them are upper-case.
    """
    if len(text) != _SHORT:
        return text
    chunks = (text[at : at + 5] for at in range(0, _SHORT, 5))
    return text + "".join(
        _SUFFIX[sum(1 << bit for bit, letter in enumerate(chunk) if "A" <= letter <= "Z")]
        for chunk in chunks
    )
