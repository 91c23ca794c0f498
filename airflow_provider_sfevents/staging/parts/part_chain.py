"""Select and order the files that make up a batch. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.staging.manifest import Part


def chain(start: str, parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the files that hold the most events in a row from `start` on.

    Each returned file starts at the replay id at which the one before it ended.

    The folder may hold files of several attempts, also of an attempt that was taken for dead and is
    still running. The bus delivers a topic in one order, so files that start at the same replay
    point hold the same events in the same order. Of those files one is taken, whole: the one that
    leads furthest. A file that cannot be reached from `start` is left out.

    :param start: `earliest`, `latest` or a replay id in hex; compared, never computed with.
    """
    beginning = defaultdict(list)
    for part in parts:
        if part.events > 0:
            beginning[part.first_ordinal, part.start].append(part)
    best: dict[tuple[int, str], tuple[int, tuple[Part, ...]]] = {}
    for place in sorted(beginning, reverse=True):  # a file leads to a higher ordinal
        ways = []
        for part in sorted(beginning[place], key=lambda one: one.path):
            further, after = best.get((part.first_ordinal + part.events, part.end), (0, ()))
            ways.append((part.events + further, (part, *after)))
        best[place] = max(ways, key=lambda way: way[0])
    return best.get((0, start), (0, ()))[1]
