"""A job over Spark Connect in a process that dies while the server runs one of its commits.

Run by `test_connect_killed` with a server's URL, the job's module, the step before the commit, and
the job's arguments.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tests.harness.step_hooks import on_steps

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(url: str, job: str, before: str, arguments: Sequence[str]) -> None:
    from pyspark.sql.connect.session import SparkSession

    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    session = SparkSession.builder.remote(url).create()
    asked: list[bool] = []

    def die(*_: Any, done: bool = False, **__: Any) -> None:
        """The server reports that tasks of a statement are at work."""
        if asked and not done:
            os.kill(os.getpid(), signal.SIGKILL)

    def step(name: str, about: str) -> None:
        if before in (name, f"{name} {about.partition(' ')[0]}"):
            asked.append(True)

    session.registerProgressHandler(die)
    with on_steps(step):
        import_module(job).job_of(arguments)[2](session, None)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], sys.argv[4:])
