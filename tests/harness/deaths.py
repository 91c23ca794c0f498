"""A process that dies at one of the package's named steps, as by SIGKILL.

No handler runs, nothing is flushed, no thread ends its work. There is no Airflow in it, so it
starts in a second; `stops` is for whole Airflows and Spark drivers.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import Any

from airflow_provider_sfevents import steps

DEAD = 9


def kill_at(step: str, nth: int, module: str, told: dict[str, Any], then: str = "") -> None:
    """Run a module in its own process until it dies at a step.

    The module calls `told_and_doomed` first.

    :param nth: 1 for the first time that the process reaches the step, 3 for the third time.
    :param then: name of a Python audit event: the process dies at the first one after the step.
    """
    given = json.dumps({"step": step, "nth": nth, "told": told, "then": then})
    done = subprocess.run(
        [sys.executable, "-m", module], input=given, text=True, check=False, timeout=60
    )
    assert done.returncode == DEAD


def told_and_doomed() -> dict[str, Any]:
    """Return the arguments of `kill_at` in the process that is to die."""
    given = json.load(sys.stdin)
    seen: Counter[object] = Counter()
    is_there = False

    def hear(event: str, said: tuple[object, ...]) -> None:
        nonlocal is_there
        if is_there and event == given["then"]:
            os._exit(DEAD)
        if event == steps.EVENT:
            seen[said[0]] += 1
            if said[0] == given["step"] and seen[said[0]] == given["nth"]:
                is_there = True
                if not given["then"]:
                    os._exit(DEAD)

    sys.addaudithook(hear)
    told: dict[str, Any] = given["told"]
    return told
