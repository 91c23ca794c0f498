"""Tests that may be skipped in CI, where any other skip is a failure.

A test is skipped on a machine without something that it needs: Maven, a browser, an interpreter,
the right to mount a disk. CI has all of these, so a skip there means that a guarantee was not
tested.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

VARIABLE = "SFEVENTS_SKIPS_FAIL"
"""Environment variable that `.ci/run` sets."""

ALLOWED = {
    "tests/contract/test_transport.py::test_both_ports_serve_the_api": (
        "the emulator listens on one port, which is chosen for it"
    ),
}
"""Tests by id without parameters, each with the reason for its skip in CI."""


def judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip that is not allowed into a failure, in CI."""
    is_xfail = hasattr(report, "wasxfail")
    test = report.nodeid.partition("[")[0]
    if not report.skipped or is_xfail or test in ALLOWED or VARIABLE not in os.environ:
        return
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = (
        f"{why}\nIn CI this is a failure: a test that is skipped proves nothing. "
        "Give CI what the test needs, "
        "or list the test in tests/harness/skips.py with the reason."
    )
