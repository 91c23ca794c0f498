"""The steps of a landing, by name: the moments before each of its effects, any of which may be the last one before a kill.

Told to the `step` of `landing.land` together with what the step is about; `land.py` makes audit events of them
(`airflow_provider_sfevents.steps`). In the order in which a landing takes them; those in the middle may be taken several times.
"""

from __future__ import annotations

from collections.abc import Callable

BEGAN = "landing-began"  # the session is up, nothing has been looked at; about: the manifest
FOLDER = "landing-folder"  # the attempt's own is about to be made; about: the batch
WRITE = "landing-write"  # about: the table; again where Spark alone could not decode all of it, and where duplicates were found
COMPARE = "landing-compare"  # what was written, with what the tables hold; about: the batch
CLEAR = "landing-clear"  # about: the folder of an attempt at an older form of the batch
# About: the file's new place, relative to the table root; for Delta and Iceberg the table that a commit is about to be made to.
MOVE = "landing-move"
# What an earlier landing of the batch has left. About: a file, relative to the table root; for Delta and Iceberg a table.
REMOVE = "landing-remove"
LANDED = "landing-landed"  # about: the batch
CLEAN = "landing-clean"  # about: the batch
RECEIPT_NEXT = "receipt-next"  # about: the batch
RECEIPT_WRITTEN = "receipt-written"  # about: the batch

SPARK_STEPS = (
    BEGAN,
    FOLDER,
    WRITE,
    COMPARE,
    CLEAR,
    MOVE,
    REMOVE,
    LANDED,
    CLEAN,
    RECEIPT_NEXT,
    RECEIPT_WRITTEN,
)

Step = Callable[[str, str], None]
"""Called before each effect, with the step's name and what it is about."""


def no_step(_name: str, _about: str) -> None:
    """Nobody is told."""
