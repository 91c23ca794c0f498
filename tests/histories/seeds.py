"""The seed of a run of histories: one and the same where a change is judged, others where somebody looks for what nobody has thought of.

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
REPEATED_BY = f"{NAME}={SEED}"
