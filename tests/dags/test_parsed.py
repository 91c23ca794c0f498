"""Parsing of DAG files: the examples parse, and mistakes are refused with the remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.airflow,
    # Airflow's own, for any .airflowignore.
    pytest.mark.filterwarnings("ignore:GitWildMatchPattern:DeprecationWarning"),
]

MISTAKEN = """
from airflow.sdk import DAG, Asset, AssetWatcher
from airflow_provider_sfevents.sensors.sfevents import SfEventsSensor
from airflow_provider_sfevents.triggers.sfevents import SfEventsWatchTrigger

TOPIC = "/event/Order__e"

def watched(trigger):
    with DAG("mistaken", schedule=[Asset("a", watchers=[AssetWatcher(name="w", trigger=trigger)])]):
        pass

with DAG("waiting"):
    {}
"""


def test_every_example_is_parsed(repository: Path) -> None:
    """Each file of `dags/` has one DAG of its name, with its docstring as the text in the UI."""
    bag = _bag(repository / "dags")
    assert bag.import_errors == {}
    names = {path.stem for path in (repository / "dags").glob("*.py")}
    assert {dag_id for dag_id, dag in bag.dags.items() if dag.doc_md} == names


@pytest.mark.parametrize(
    ("mistake", "said"),
    [
        ("SfEventsSensor(task_id='wait', topic=TOPIC, min_events=0)", "min_events=0"),
        (
            "SfEventsSensor(task_id='wait', topic=TOPIC, min_events=11, max_events=10)",
            "from 1 to 10, the most that the batch may hold",
        ),
        ("SfEventsSensor(task_id='wait', topic='Order__e')", "'Order__e'"),
        ("SfEventsSensor(task_id='wait', topic=TOPIC, consumer='a/b')", "'a/b'"),
        ("watched(SfEventsWatchTrigger('Order__e', 'mistaken'))", "'Order__e'"),
        ("watched(SfEventsWatchTrigger(TOPIC, 'a/b'))", "'a/b'"),
        ("watched(SfEventsWatchTrigger(TOPIC, 'mistaken', max_events=0))", "max_events=0"),
        ("watched(SfEventsWatchTrigger(TOPIC, 'mistaken', position_store='xcom'))", "'asset'"),
    ],
)
def test_what_cannot_work_is_an_import_error(tmp_path: Path, mistake: str, said: str) -> None:
    """The DAG does not appear; the import error names what was given, and what may be."""
    (tmp_path / "mistaken.py").write_text(MISTAKEN.format(mistake))
    [error] = _bag(tmp_path).import_errors.values()
    last = error.strip().splitlines()[-1]
    assert last.startswith("airflow_provider_sfevents.")
    assert said in last


def _bag(folder: Path) -> Any:
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(str(folder))
