"""Tests that CI may leave out. Everywhere else a skip is a note; in CI any other one is a failure.

A test is skipped where something is not there: Maven, a browser, an interpreter, the right to mount a disk. CI has all of these, so
a skip there means that a promise went untested.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

VARIABLE = "SFEVENTS_SKIPS_FAIL"
"""Set by `.ci/run`."""

ALLOWED = {
    "tests/contract/test_transport.py::test_both_ports_serve_the_api": (
        "the emulator listens on one port, which is chosen for it"
    ),
}
"""Tests by their ids without parameters, each with the reason why it cannot run in CI."""


def judge(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip that is not allowed into a failure, in CI."""
    is_xfail = hasattr(report, "wasxfail")
    test = report.nodeid.partition("[")[0]
    if not report.skipped or is_xfail or test in ALLOWED or VARIABLE not in os.environ:
        return
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
    report.outcome = "failed"
    report.longrepr = (
        f"{why}\nIn CI this is a failure: a test that is skipped proves nothing. Give CI what the test needs, "
        "or list the test in tests/harness/skips.py with the reason."
    )
