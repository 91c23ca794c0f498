"""Which of a batch's files belong to it, and in which order. Pure."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.staging.manifest import Part

LATEST = "latest"


def chain(start: str, parts: Iterable[Part]) -> tuple[Part, ...]:
    """The files that hold the most events in a row from `start` on: each starts where the one before ended.

    Files of several attempts may lie beside each other, of a twin too that was thought dead. They hold the same events in the
    same order wherever they start at the same place, as the bus delivers a topic in one order; so of those that start at the same
    place one is taken, whole, and which one is a question of how far it leads. What cannot be reached from `start` is left out.

    `latest` is not a place but a moment: of several files that start there the earliest attempt's counts, as it missed the least.

    :param start: `earliest`, `latest` or a replay id in hex; compared, never computed with.
    """
    beginning = defaultdict(list)
    for part in parts:
        if part.events > 0:
            beginning[part.first_ordinal, part.start].append(part)
    best: dict[tuple[int, str], tuple[int, tuple[Part, ...]]] = {}
    for place in sorted(beginning, reverse=True):  # what a file leads to lies at a higher ordinal
        ways = []
        for part in sorted(beginning[place], key=lambda one: one.path):
            further, after = best.get((part.first_ordinal + part.events, part.end), (0, ()))
            ways.append((part.events + further, (part, *after)))
        best[place] = ways[0] if place[1] == LATEST else max(ways, key=lambda way: way[0])
    return best.get((0, start), (0, ()))[1]
