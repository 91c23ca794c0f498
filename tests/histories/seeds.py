"""Seed of the histories: a fixed one to judge a change, a random one to search for faults.

`SFEVENTS_HISTORIES_SEED` takes the number that a failure prints, or `random` (`make histories`).
"""

from __future__ import annotations

import os
import random

NAME = "SFEVENTS_HISTORIES_SEED"
_ALWAYS = 20261122


def _chosen(said: str) -> int:
    if said == "random":
        return random.SystemRandom().randrange(2**32)
    return int(said or _ALWAYS)


SEED = _chosen(os.environ.get(NAME, ""))
IS_SEARCH = NAME in os.environ
"""True if the seed was given: a search takes more histories than the judgement of a change."""
REPEATED_BY = f"{NAME}={SEED}"
