"""Run a Spark job of this package with a trace: `python -m scripts.walk_job LAST JOB ARGUMENTS`.

It prints the modules of the walk as JSON, with the times of their first calls: those of the driver,
from the job's own module to the functions `LAST`, and those of the tasks until then.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.walk_trace import PACKAGE, Walk
from scripts.walk_worker import FOLDER, WANTED

if TYPE_CHECKING:
    from types import FrameType


def main(last: str, job: str, *arguments: str) -> int:
    """Run the job, print its walk, and return the job's exit code."""
    texts: list[str] = json.loads(os.environ[WANTED])
    walk = Walk(
        (*texts, *(text.encode() for text in texts)),
        "job_of.<locals>.<lambda>",
        tuple(last.split(",")),
    )

    def profile(frame: FrameType, event: str, value: Any) -> None:
        walk.profile(frame, event, value)

    run = import_module(f"{PACKAGE}.spark.{job}").main
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        failed = run(arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    modules = walk.modules()
    if not walk.is_over:
        print(f"Of {last} the job called {', '.join(walk.ends)}.")
    for file in sorted(Path(os.environ[FOLDER]).iterdir()):
        for module, at in json.loads(file.read_text()).items():
            if at < walk.ended_at():
                modules[module] = min(at, modules.get(module, at))
    print(json.dumps(modules))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
