"""Daemon of PySpark's Python workers that traces the walks of a payload through their tasks.

Spark starts it instead of its own (`spark.python.daemon.module`).
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import daemon

from scripts.walk_trace import Walk

if TYPE_CHECKING:
    from types import FrameType

FOLDER, WANTED = "SFEVENTS_WALK_FOLDER", "SFEVENTS_WALK_WANTED"
"""Environment variables: the folder for the walks, and the values as JSON."""


def trace() -> None:
    """Trace this process and those forked from it; each walk becomes a file of its modules."""
    texts: list[str] = json.loads(os.environ[WANTED])
    wanted: tuple[str | bytes, ...] = (*texts, *(text.encode() for text in texts))
    current = Walk(wanted)
    done = 0

    def profile(frame: FrameType, event: str, value: Any) -> None:
        nonlocal current, done
        current.profile(frame, event, value)
        if current.is_over:
            name = f"{os.getpid()}-{done}.json"
            Path(os.environ[FOLDER], name).write_text(json.dumps(current.modules()))
            current, done = Walk(wanted), done + 1

    sys.setprofile(profile)


if __name__ == "__main__":
    trace()
    daemon.manager()
