from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.positions import record, stores
from airflow_provider_sfevents.positions.store_choice import open_store
from airflow_provider_sfevents.positions.xcom import KEPT_ROWS, XComStore, newest, numbered, split
from tests.unit.positions.building import ORG, TOPIC, begun

if TYPE_CHECKING:
    import random

    from airflow_provider_sfevents.positions.stores import PositionStore

KEY = "sfevents.position.event.Order__e"
OF = (ORG, "load", TOPIC)


class Runs:
    """Fake XComs of a DAG's runs, by task and key, in any order; and the tasks' states."""

    def __init__(self) -> None:
        self.pushed: list[tuple[str, str, str, Any]] = []
        self.states: dict[tuple[str, str], dict[str, str]] = {}
        self.down = False

    def task(self, run: str, task_id: str) -> dict[str, Any]:
        """Return the context of one try, without the XComs of the run's earlier tries."""
        self.pushed = [one for one in self.pushed if one[:2] != (run, task_id)]
        return {
            "ti": TaskInstance(self, run, task_id),
            "task_state_store": State(self, run, task_id),
        }

    def remove(self, *, key: str, dag_id: str, run_id: str, task_id: str, map_index: int) -> None:
        """Delete a row as `XCom.delete` does; a missing row is ignored."""
        assert (dag_id, map_index) == ("load", -1)
        self.pushed = [one for one in self.pushed if one[:3] != (run_id, task_id, key)]

    def positions(self, key: str = KEY) -> list[Any]:
        return [one[3] for one in self.pushed if one[2] == key]

    def records(self) -> list[str]:
        return [split(text)[1] for text in self.positions()]


class State:
    def __init__(self, runs: Runs, run: str, task_id: str) -> None:
        self._values = runs.states.setdefault((run, task_id), {})

    def get(self, key: str) -> str | None:
        return self._values.get(key)

    def set(self, key: str, value: str) -> None:
        self._values[key] = value


class TaskInstance:
    dag_id = "load"
    map_index = -1

    def __init__(self, runs: Runs, run: str, task_id: str) -> None:
        self.task_id = task_id
        self.run_id = run
        self._runs = runs
        self._run = run

    def xcom_push(self, key: str, value: Any) -> None:
        if self._runs.down:
            raise OSError("502")
        self._runs.pushed = [
            one for one in self._runs.pushed if one[:3] != (self._run, self.task_id, key)
        ]
        self._runs.pushed.append((self._run, self.task_id, key, value))

    def xcom_pull(self, *, task_ids: list[str], key: str, include_prior_dates: bool) -> list[Any]:
        if self._runs.down:
            raise OSError("502")
        assert include_prior_dates
        found: list[Any] = []
        for task_id in task_ids:
            values = [one[3] for one in self._runs.pushed if one[1:3] == (task_id, key)]
            found.extend(values or [None])
        return found


def opened(context: dict[str, Any] | None, *tasks: str) -> PositionStore:
    return open_store(
        "xcom", org_id=ORG, consumer="load", topic=TOPIC, context=context, tasks=tasks
    )


def pruning(runs: Runs, run: str, *tasks: str, consumer: str = "load") -> PositionStore:
    """Build a store that deletes from these runs."""
    return XComStore(ORG, consumer, TOPIC, runs.task(run, "load"), tasks, remove=runs.remove)


def at(batch_number: int) -> Any:
    return begun(
        batch_number=batch_number,
        replay_id=f"{batch_number:020x}",
        committed_at=f"2026-01-{batch_number + 1:02d}T00:00:00+00:00",
    )


def test_the_next_run_finds_what_the_last_one_pushed() -> None:
    """A run reads the position that an earlier run pushed."""
    runs = Runs()
    first = opened(runs.task("r1", "load"))
    assert stores.read(first) is None
    stores.write(first, at(0))
    assert stores.read(opened(runs.task("r2", "load"))) == at(0)


def test_the_highest_batch_number_counts_whatever_the_order() -> None:
    """The record with the highest batch number counts, in any order of the runs."""
    runs = Runs()
    for batch_number in (2, 3, 1):
        context = runs.task(f"r{batch_number}", "load")
        context["ti"].xcom_push(KEY, at(batch_number).to_json())
    assert stores.read(opened(runs.task("r9", "load"))) == at(3)


def test_a_second_record_of_a_batch_number_counts() -> None:
    """A keepalive after a commit of an earlier run counts, also when that run is cleared."""
    runs = Runs()
    committed = at(3)
    quiet = record.move_on(committed, "0b", "2026-01-05T00:00:00+00:00")
    stores.write(opened(runs.task("r1", "load")), committed)
    stores.write(opened(runs.task("r2", "load")), quiet)
    assert stores.read(opened(runs.task("r3", "load"))) == quiet
    own = [one for one in runs.pushed if one[0] == "r1"]
    cleared = opened(runs.task("r1", "load"))
    runs.pushed, others = [], runs.pushed  # of runs with a later logical date it sees none
    assert stores.read(cleared) == committed
    assert runs.pushed == own
    runs.pushed += others
    assert stores.read(opened(runs.task("r3", "load"))) == quiet


def test_a_retry_finds_what_its_first_try_pushed() -> None:
    """A retry finds its first try's position, whose XCom Airflow deleted, and pushes it again."""
    runs = Runs()
    stores.write(opened(runs.task("r1", "load")), at(0))
    assert stores.read(opened(runs.task("r1", "load"))) == at(0)
    assert stores.read(opened(runs.task("r2", "load"))) == at(0)


def test_only_the_last_records_are_kept() -> None:
    """Each write removes the oldest XComs, because a read fetches every XCom of the position."""
    runs = Runs()
    for batch_number in range(3 * KEPT_ROWS):
        stores.write(pruning(runs, f"r{batch_number}"), at(batch_number))
    kept = [at(batch_number).to_json() for batch_number in range(2 * KEPT_ROWS, 3 * KEPT_ROWS)]
    assert (runs.records(), len(runs.positions(f"{KEY}.rows"))) == (kept, KEPT_ROWS)
    assert stores.read(pruning(runs, "later")) == at(3 * KEPT_ROWS - 1)


def test_a_run_that_writes_often_removes_no_other_record() -> None:
    """A run that writes often has one record, and removes no other run's."""
    runs = Runs()
    stores.write(pruning(runs, "r1"), at(0))
    for _ in range(2 * KEPT_ROWS):
        stores.write(pruning(runs, "r2"), at(1))
    assert runs.records() == [at(0).to_json(), at(1).to_json()]


def test_records_of_another_consumer_are_left_alone() -> None:
    """A write removes only its own position's records, though mapped tasks share a key."""
    runs = Runs()
    other = replace(at(0), consumer="other")
    stores.write(pruning(runs, "r-other", consumer="other"), other)
    for batch_number in range(2 * KEPT_ROWS):
        stores.write(pruning(runs, f"r{batch_number}"), at(batch_number))
    assert stores.read(pruning(runs, "later", consumer="other")) == other


def test_a_write_succeeds_though_old_records_cannot_be_removed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A write succeeds if old records cannot be removed; the next write tries that again."""
    runs = Runs()
    for batch_number in range(KEPT_ROWS):
        stores.write(pruning(runs, f"r{batch_number}"), at(batch_number))

    def fail(**_: object) -> None:
        raise OSError("502")

    context = runs.task("failing", "load")
    stores.write(XComStore(ORG, "load", TOPIC, context, remove=fail), at(KEPT_ROWS))
    assert "could not be removed: 502" in caplog.text
    stores.write(pruning(runs, "next"), at(KEPT_ROWS + 1))
    assert len(runs.positions()) == KEPT_ROWS


def test_in_a_chain_both_tasks_read_what_either_wrote() -> None:
    """In a chain, the fetching and the committing task read each other's records."""
    runs = Runs()
    stores.write(opened(runs.task("r1", "fetch"), "commit"), at(0))
    commit = opened(runs.task("r1", "commit"), "fetch")
    assert stores.read(commit) == at(0)
    stores.write(commit, at(1))
    assert stores.read(opened(runs.task("r2", "fetch"), "commit")) == at(1)


def test_an_api_server_that_does_not_answer_is_no_first_run() -> None:
    """An API server that does not answer is an error, both for reading and for writing."""
    runs = Runs()
    store = opened(runs.task("r1", "load"))
    runs.down = True
    with pytest.raises(
        TransportError, match=f"XCom '{KEY}' of task load could not be read: OSError: 502"
    ):
        stores.read(store)
    with pytest.raises(TransportError, match="could not be written"):
        stores.write(store, at(0))


def test_outside_of_a_task_there_are_no_xcoms() -> None:
    """A trigger that opens the XCom store gets an error that names the stores to use instead."""
    with pytest.raises(ConfigurationError, match="needs 'variable' or 'asset'"):
        opened(None)


@given(st.lists(st.integers(0, 3), min_size=1), st.randoms(use_true_random=False))
def test_the_newest_of_an_epoch_has_the_highest_batch_number(
    batch_numbers: list[int], shuffler: random.Random
) -> None:
    """The newest record of an epoch has the highest batch number, and is the last one of it."""
    records = [
        numbered(replace(at(batch_number), events_total=write).to_json(), write)
        for write, batch_number in enumerate(batch_numbers)
    ]
    last = max(range(len(records)), key=lambda write: (batch_numbers[write], write))
    expected = records[last]
    shuffler.shuffle(records)
    assert newest(records, OF, "here") == expected


@given(st.integers(0, 10**9))
def test_a_record_survives_its_number(number: int) -> None:
    """A record is the same text after its number is taken off; one without a number has 0."""
    text = at(3).to_json()
    assert split(numbered(text, number)) == (number, text)
    assert split(text) == (0, text)


def test_after_a_reset_the_new_epoch_counts() -> None:
    """A reset position counts, even if a record of the old epoch has a higher batch number."""
    reset = begun(epoch="e2", committed_at="2026-02-01T00:00:00+00:00").to_json()
    assert newest([at(9).to_json(), reset, at(3).to_json()], OF, "here") == reset


def test_others_positions_do_not_count() -> None:
    """Records of another org, consumer or topic do not count, though mapped tasks share a key."""
    others = [
        replace(at(9), org_id="00D2"),
        replace(at(9), consumer="other"),
        replace(at(9), topic="/event/X__e"),
    ]
    assert newest([other.to_json() for other in others], OF, "here") is None
    assert (
        newest([*(other.to_json() for other in others), at(1).to_json()], OF, "here")
        == at(1).to_json()
    )


def test_rubbish_among_them_is_not_passed_over() -> None:
    """An unreadable record is an error, because it might be the newest."""
    with pytest.raises(ConfigurationError, match="does not hold a position"):
        newest([at(1).to_json(), "rubbish"], OF, "here")
