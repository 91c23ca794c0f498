"""Tests that several processes run beside each other: `pytest -n 3`. Most of them wait most of the time.

What is expensive to set up has a process to itself: a Spark session, the deployment of Airflow, the cluster, the stages of the proof.
All else goes file by file. The longest come first, so that no process ends up with one of them while the others have nothing left.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import override
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest

LONGEST_FIRST = (
    "tests/airflow/",
    "tests/spark/test_apply",
    "tests/spark/test_upkeep",
    "tests/spark/",
    "tests/proof/",
    "tests/cluster/",
    "tests/dags/test_salesforce_records",
    "tests/scale/",
    "tests/unit/model/",
    "tests/dags/",
    "tests/foreign/",
    "tests/integration/",
    "tests/",
)
# A test is in the first lane that its name begins with. Spark's tests are two, as one alone would be what the others wait for in the end.
SHARE_A_SETUP = {
    "tests/airflow/": "airflow",
    "tests/cluster/": "cluster",
    "tests/proof/": "proof",
    "tests/spark/test_apply": "current state",
    "tests/spark/test_upkeep": "current state",
    "tests/spark/": "landing",
}


def sort(items: list[pytest.Item]) -> None:
    """Put tests into the order in which they are handed out."""
    items.sort(key=lambda item: _first_of(LONGEST_FIRST, item.nodeid))


def lane_of(nodeid: str) -> str:
    """What a test has to share a process with: its folder or its file."""
    file = nodeid.partition("::")[0]
    return next((lane for start, lane in SHARE_A_SETUP.items() if file.startswith(start)), file)


def _first_of(folders: tuple[str, ...], nodeid: str) -> int:
    return next(place for place, folder in enumerate(folders) if nodeid.startswith(folder))


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    """Hands out whole lanes, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        # Not by the number of tests in a lane: one test may be as long as a thousand others.
        config.option.loadscopereorder = False
        super().__init__(config, log)

    @override
    def _split_scope(self, nodeid: str) -> str:
        return lane_of(nodeid)
