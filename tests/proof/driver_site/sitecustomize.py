"""Python imports this when it starts, wherever this folder is on PYTHONPATH: so Spark's driver can be stopped at a named step."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

if "SFEVENTS_PROOF_REPORT" in os.environ:
    stops = runpy.run_path(str(Path(__file__).parents[2] / "harness" / "stops.py"))
    stops["install_from_environment"]()
