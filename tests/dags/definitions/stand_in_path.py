"""Where the stand-in for the Spark job is; DAGs are copied to where Airflow looks, this module is not."""

from __future__ import annotations

from pathlib import Path

STAND_IN = str(Path(__file__).parent / "stand_in.py")
