"""Distribution of tests over several processes: `pytest -n 3`.

Most tests wait most of the time. Tests with an expensive setup share one process: a Spark session,
the deployment of Airflow, the cluster, the stages of the proof. All others are distributed by file.
The longest come first, so that no process still runs one of them when the others have ended.
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
    "tests/docs/test_tutorials",
    "tests/integration/test_wheel",
    "tests/proof/",
    "tests/cluster/",
    "tests/dags/",
    "tests/integration/test_demo",
    "tests/integration/storage/",
    "tests/integration/test_connection_form",
    "tests/foreign/",
    "tests/integration/",
    "tests/unit/model/",
    "tests/",
)
# A test belongs to the first lane that its name begins with. Spark's tests are in two lanes,
# because one alone would end last by far.
SHARE_A_SETUP = {
    "tests/airflow/": "airflow",
    "tests/cluster/": "cluster",
    "tests/proof/": "proof",
    "tests/spark/test_apply": "current state",
    "tests/spark/test_upkeep": "current state",
    "tests/spark/": "landing",
}


def sort(items: list[pytest.Item]) -> None:
    """Sort tests into the order of their distribution."""
    items.sort(key=lambda item: _first_of(LONGEST_FIRST, item.nodeid))


def lane_of(nodeid: str) -> str:
    """Lane of a test: the folder or file whose tests share one process."""
    file = nodeid.partition("::")[0]
    return next((lane for start, lane in SHARE_A_SETUP.items() if file.startswith(start)), file)


def _first_of(folders: tuple[str, ...], nodeid: str) -> int:
    return next(place for place, folder in enumerate(folders) if nodeid.startswith(folder))


class Lanes(LoadScopeScheduling):  # type: ignore[misc]
    """Distribution of whole lanes, in the order of the tests."""

    def __init__(self, config: pytest.Config, log: object) -> None:
        # The number of tests in a lane does not count: one may be as long as a thousand others.
        config.option.loadscopereorder = False
        super().__init__(config, log)

    @override
    def _split_scope(self, nodeid: str) -> str:
        return lane_of(nodeid)
