"""Fixtures of the contract suite, for the emulator and, with `--org`, for a real org.

See docs/how-to/contract-suite.md.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.contract import deviations
from tests.contract.orgs import OrgUnderTest, check_given, emulated, given

if TYPE_CHECKING:
    from collections.abc import Iterator

_ORGS = pytest.StashKey[list[OrgUnderTest]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--org",
        action="store_true",
        help="run tests/contract on the org of SFEVENTS_ORG_CONNECTION, not on the emulator",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--org", default=False):
        check_given(os.environ)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--org", default=False):
        return
    for item in items:
        name = f"{item.path.stem}::{item.name}"
        if item.path.parent.name == "contract" and name in deviations.EMULATOR:
            why = str(deviations.EMULATOR[name])
            item.add_marker(pytest.mark.xfail(reason=why, strict=True))


@pytest.fixture(scope="session")
def org(pytestconfig: pytest.Config) -> Iterator[OrgUnderTest]:
    """The org under test."""
    with given() if pytestconfig.getoption("--org", default=False) else emulated() as one:
        pytestconfig.stash.setdefault(_ORGS, []).append(one)
        yield one


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Report the cost of the run for the org."""
    for one in config.stash.get(_ORGS, []):
        if one.emulator is None:
            spent = one.counter
            terminalreporter.write_line(
                f"{spent.delivered} events were delivered and {spent.published} published; the org "
                "counts each"
                " against its allowances"
            )
