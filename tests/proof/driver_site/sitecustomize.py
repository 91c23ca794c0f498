"""Stop Spark's driver at a named step.

Python imports this module at its start, because its folder is on PYTHONPATH.
"""

from __future__ import annotations

import os
import runpy
from pathlib import Path

if "SFEVENTS_PROOF_REPORT" in os.environ:
    stops = runpy.run_path(str(Path(__file__).parents[2] / "harness" / "stops.py"))
    stops["install_from_environment"]()
