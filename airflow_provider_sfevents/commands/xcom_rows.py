"""A position in the XComs of earlier runs, in Airflow's database."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow.models.dagrun import DagRun
from airflow.models.task_state_store import TaskStateStoreModel
from airflow.models.taskinstance import TaskInstance
from airflow.models.xcom import XComModel
from airflow.sdk.execution_time.xcom import XCom
from airflow.state import TaskScope, get_state_backend
from airflow.utils.session import create_session
from sqlalchemy import delete, func, select

from airflow_provider_sfevents.commands.asset_rows import text
from airflow_provider_sfevents.commands.variable_rows import told
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.positions.record_text import Whose, xcom_key
from airflow_provider_sfevents.positions.xcom import newest, next_number, numbered, split

if TYPE_CHECKING:
    from sqlalchemy.orm import Session


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A record as it is stored, and the task instance that it is stored with."""

    record: str
    dag: str
    run: str
    task: str
    map_index: int

    @property
    def scope(self) -> TaskScope:
        return TaskScope(
            dag_id=self.dag, run_id=self.run, task_id=self.task, map_index=self.map_index
        )


class XComRows:
    """The newest position of a consumer and topic in XComs and task states, over all runs and DAGs.

    It is written with the newest run of the task that wrote last, since a run reads what runs
    before it have left. It is written in both places, since Airflow deletes a task's XComs when the
    task is retried.

    :param org_id: empty if it is not known: then nothing is found, and nothing can be written.
    """

    advice = "A task wrote it at the same time; show it again."

    def __init__(self, org_id: str, consumer: str, topic: str) -> None:
        self._of = (org_id, consumer, topic)
        self._key = xcom_key(topic)
        self.whose = Whose(consumer=consumer, topic=topic, store="xcom")
        self.where = f"XCom {self._key!r} of consumer {consumer!r}"

    def get(self) -> str | None:
        with told(self.where, "read"), create_session() as session:
            rows = _rows(self._key, session)
        found = newest((row.record for row in rows), self._of, self.where)
        return None if found is None else split(found)[1]

    def set(self, record: str) -> None:
        with told(self.where, "written"), create_session() as session:
            rows = _rows(self._key, session)
            last = newest((row.record for row in rows), self._of, self.where)
            written = next((row for row in rows if row.record == last), None)
            if written is None:
                raise ConfigurationError(
                    f"{self.where} cannot be written: no run has left a position, so there is no "
                    "task instance to store one with. Run the DAG once with the replay id as the "
                    "operator's `initial_replay`; or use another `position_store`."
                )
            stored = numbered(record, next_number(row.record for row in rows))
            self._write(_in_newest_run(written, session), stored, session)

    def delete(self) -> None:
        with told(self.where, "deleted"), create_session() as session:
            for row in _rows(self._key, session):
                if _of(row, self.where) == self._of:
                    self._remove(row, session)

    def _write(self, row: _Row, record: str, session: Session) -> None:
        at = {
            "dag_id": row.dag,
            "run_id": row.run,
            "task_id": row.task,
            "map_index": row.map_index,
        }
        value = XCom.serialize_value(record, key=self._key, **at)
        XComModel.set(self._key, value, **at, serialize=False, session=session)
        get_state_backend().set(row.scope, self._key, json.dumps(record), session=session)

    def _remove(self, row: _Row, session: Session) -> None:
        session.execute(
            delete(XComModel).where(
                XComModel.key == self._key,
                XComModel.dag_id == row.dag,
                XComModel.run_id == row.run,
                XComModel.task_id == row.task,
                XComModel.map_index == row.map_index,
            )
        )
        get_state_backend().delete(row.scope, self._key, session=session)


def xcom_orgs(consumer: str, topic: str) -> set[str]:
    """Return the orgs for which there is a record of this consumer and topic."""
    where = f"XCom {xcom_key(topic)!r}"
    with told(where, "read"), create_session() as session:
        found = [_of(row, where) for row in _rows(xcom_key(topic), session)]
    return {org_id for org_id, of, on in found if (of, on) == (consumer, topic)}


def _of(row: _Row, where: str) -> tuple[str, str, str]:
    position = Position.from_json(split(row.record)[1], where)
    return position.org_id, position.consumer, position.topic


def _rows(key: str, session: Session) -> list[_Row]:
    """Return all records under this key; of task states, those in Airflow's database."""
    pushed = [
        (one, XCom.deserialize_value(one))
        for one in session.scalars(select(XComModel).where(XComModel.key == key))
    ]
    kept = [
        (one, json.loads(one.value))
        for one in session.scalars(
            select(TaskStateStoreModel).where(TaskStateStoreModel.key == key)
        )
    ]
    return [
        _Row(
            record=text(value, f"XCom {key!r} of {one.dag_id}.{one.task_id}"),
            dag=one.dag_id,
            run=one.run_id,
            task=one.task_id,
            map_index=one.map_index,
        )
        for one, value in (*pushed, *kept)
    ]


def _in_newest_run(row: _Row, session: Session) -> _Row:
    """Return the same task in its DAG's newest run."""
    run = session.scalar(
        select(TaskInstance.run_id)
        .join(
            DagRun, (DagRun.dag_id == TaskInstance.dag_id) & (DagRun.run_id == TaskInstance.run_id)
        )
        .where(
            TaskInstance.dag_id == row.dag,
            TaskInstance.task_id == row.task,
            TaskInstance.map_index == row.map_index,
        )
        .order_by(func.coalesce(DagRun.logical_date, DagRun.run_after).desc())
        .limit(1)
    )
    return _Row(
        record=row.record, dag=row.dag, run=run or row.run, task=row.task, map_index=row.map_index
    )
