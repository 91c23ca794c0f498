"""A position in the XComs of earlier runs."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.positions.record_text import Whose, xcom_key

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

log = logging.getLogger(__name__)

KEPT_ROWS = 10
"""Number of a position's XComs that are kept; each read of the position fetches them all."""

_NUMBER = re.compile(r'\{"write": ([0-9]+), ')

Row = tuple[int, str, str, int]
"""Running number of a record, and the XCom's run, task and map index."""


class XComStore:
    """Position store for deployments that do not allow Variables; its guarantees are the weakest.

    - Airflow deletes a task's XComs when its next try starts. So the record is kept in the task's
      own state too, which survives retries and clearing, and is pushed again from there.
    - Runs are filtered by logical date: a backfilled or manual run does not see all of the others.
    - Runs without a logical date sort first on PostgreSQL and last elsewhere, so "the latest"
      depends on the database. So the values of all runs are pulled, and the records themselves say
      which is the newest. (Without `map_indexes` Airflow returns all values, in no order; with
      `None` only one, and none of a mapped task.)
    - Several runs may write records of one batch number: a commit, then keepalives. So each record
      has the number of its write, which is that of the last record the task sees, and one more.
    - A record that was deleted with its run, or is filtered out, is noticed by comparison with the
      receipts in the staging area.
    - A task cannot request only the last few values from Airflow, but only all of them. So each
      write removes all but the last `KEPT_ROWS`; a list of them is an XCom of its own.

    :param context: the task's.
    :param tasks: ids of further tasks that write this position; in a chain, the fetching and the
        committing task name each other.
    :param remove: deletes an XCom, with the arguments of `XCom.delete`, which is the default.
    :raises ConfigurationError: outside of a task.
    """

    advice = "Use another `position_store`, or a custom XCom backend that reads what it wrote."

    def __init__(
        self,
        org_id: str,
        consumer: str,
        topic: str,
        context: Mapping[str, Any] | None,
        tasks: Sequence[str] = (),
        *,
        remove: Callable[..., None] | None = None,
    ) -> None:
        if context is None:
            raise ConfigurationError(
                "position_store='xcom' works in tasks only; a trigger or watcher needs 'variable' "
                "or 'asset'."
            )
        self._of = (org_id, consumer, topic)
        self.whose = Whose(consumer=consumer, topic=topic, store="xcom")
        self._ti = context["ti"]
        self._state = context["task_state_store"]
        self._key = xcom_key(topic)
        self._rows_key = f"{self._key}.rows"
        self._remove = remove or _remove
        self._tasks = list(dict.fromkeys([self._ti.task_id, *tasks]))
        self.where = f"XCom {self._key!r} of task {' or '.join(self._tasks)}"

    def get(self) -> str | None:
        try:
            pulled, kept = self._pull(), self._kept()
        except Exception as error:
            raise TransportError(
                f"{self.where} could not be read: {type(error).__name__}: {error}. Nothing was "
                "fetched; try again when Airflow's API server answers."
            ) from error
        found = newest([*pulled, *kept], self._of, self.where, self.whose)
        if found is not None and found not in pulled:
            self._push(lambda: found)
        return None if found is None else split(found)[1]

    def set(self, record: str) -> None:
        self._push(lambda: numbered(record, next_number([*self._pull(), *self._kept()])))

    def _push(self, made: Callable[[], str]) -> None:
        """Write what `made` returns; it may read what is there."""
        try:
            text = made()
            self._state.set(self._key, text)
            self._ti.xcom_push(self._key, text)
        except Exception as error:
            raise TransportError(
                f"{self.where} could not be written: {type(error).__name__}: {error}. What has "
                "landed stays landed; the next try only moves the position."
            ) from error
        try:
            self._remove_old()
        except Exception as error:  # noqa: BLE001 - housekeeping; the position is written
            log.warning("The list of XComs of %s could not be written: %s", self.where, error)

    def _pull(self, key: str = "") -> list[Any]:
        values = self._ti.xcom_pull(
            task_ids=self._tasks, key=key or self._key, include_prior_dates=True
        )
        return [value for value in values or [] if value is not None]

    def _kept(self) -> list[Any]:
        """Return the record in the task's own state, if there is one."""
        return [value for value in [self._state.get(self._key)] if value is not None]

    def _remove_old(self) -> None:
        """Remove the oldest XComs of this position, and record which ones are left."""
        lists = [one["rows"] for one in self._pull(self._rows_key) if tuple(one["of"]) == self._of]
        here = (self._ti.run_id, self._ti.task_id, self._ti.map_index)
        rows = with_row((tuple(row) for rows in lists for row in rows), here)
        old, left = rows[:-KEPT_ROWS], rows[-KEPT_ROWS:]
        left = [*(row for row in old if not self._is_removed(row)), *left]
        self._ti.xcom_push(
            self._rows_key, {"of": list(self._of), "rows": [list(row) for row in left]}
        )

    def _is_removed(self, row: Row) -> bool:
        """Remove a record and its list; a failed removal is tried again by the next write."""
        _, run, task, map_index = row
        at = {"run_id": run, "task_id": task, "map_index": map_index}
        try:
            for key in (self._key, self._rows_key):
                self._remove(key=key, dag_id=self._ti.dag_id, **at)
        except Exception as error:  # noqa: BLE001 - housekeeping; the position is written
            log.warning("An old XCom of %s could not be removed: %s", self.where, error)
            return False
        return True


def with_row(rows: Iterable[Row], here: tuple[str, str, int]) -> list[Row]:
    """Return the rows in the order of their last write, without repetition, and `here` last."""
    last: dict[tuple[str, str, int], int] = {}
    for number, run, task, map_index in rows:
        place = (run, task, map_index)
        last[place] = max(number, last.get(place, 0))
    last[here] = 1 + max(last.values(), default=0)
    return sorted((number, *place) for place, number in last.items())


def _remove(**row: Any) -> None:
    from airflow.sdk.execution_time.xcom import XCom

    XCom.delete(**row)


def numbered(record: str, number: int) -> str:
    """Return a record with the number of its write, as it is stored."""
    return f'{{"write": {number}, {record.removeprefix("{")}'


def split(stored: str) -> tuple[int, str]:
    """Return the number of a stored record, 0 without one, and the record."""
    found = _NUMBER.match(stored)
    return (int(found[1]), "{" + stored[found.end() :]) if found else (0, stored)


def next_number(stored: Iterable[Any]) -> int:
    """Return the number of the next write."""
    return 1 + max((split(str(one))[0] for one in stored), default=0)


def newest(
    records: Iterable[Any], of: tuple[str, str, str], where: str, whose: Whose | None = None
) -> str | None:
    """Pick the record with the highest batch number in the epoch last written to.

    Of several with that batch number it is the one that was written last.

    :param records: as they are stored, of any org, consumer and topic.
    :param of: the org id, consumer and topic that count.
    :raises ConfigurationError: one of them is no position.
    """
    whose = whose or Whose()
    found = {text: Position.from_json(split(text)[1], where, whose) for text in map(str, records)}
    own = {
        record: position
        for record, position in found.items()
        if (position.org_id, position.consumer, position.topic) == of
    }
    if not own:
        return None
    epoch = max(own.values(), key=lambda position: position.committed_at).epoch
    of_epoch = {record: position for record, position in own.items() if position.epoch == epoch}
    return max(of_epoch, key=lambda text: (of_epoch[text].batch_number, split(text)[0]))
