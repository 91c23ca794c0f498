"""Hold a task at one of the package's named steps while the file `hold/<step>` exists.

Every Python of the deployment loads this, because the folder is on its PYTHONPATH. A held process
writes `held/<step>/<pid>`.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

EVENT = "airflow_provider_sfevents.step"
ROOT = Path(os.environ["TEST_FOLDER"])


def _hold(event: str, said: tuple[object, ...]) -> None:
    if event != EVENT or not (ROOT / "hold" / str(said[0])).exists():
        return
    (ROOT / "held" / str(said[0]) / str(os.getpid())).touch()
    while (ROOT / "hold" / str(said[0])).exists():
        time.sleep(0.05)


sys.addaudithook(_hold)
