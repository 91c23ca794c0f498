"""A position in the XComs of earlier runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.positions.text import xcom_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class XComStore:
    """For where Variables are not allowed; the weakest store, and the staging area makes up for it.

    - What a task pushed is gone when it starts its next try.
    - Runs are filtered by logical date; a backfilled or manual run does not see all of the others.
    - Runs without a logical date sort first on PostgreSQL and last elsewhere, so "the latest" is a matter of the database.

    So all values of all runs are pulled (`map_indexes=None` makes Airflow return every one, in no order), and the record says itself
    which is the newest. What is missing or old is noticed by the receipts in the staging area.

    :param tasks: ids of the tasks that write positions of this consumer; in a chain the fetching and the committing one.
    """

    advice = "Use another `position_store`, or a custom XCom backend that reads what it wrote."

    def __init__(
        self,
        org_id: str,
        consumer: str,
        topic: str,
        context: Mapping[str, Any] | None,
        tasks: Sequence[str] = (),
    ) -> None:
        if context is None:
            raise ConfigurationError(
                "position_store='xcom' works in tasks only; a trigger or watcher needs 'variable' or 'asset'."
            )
        self._of = (org_id, consumer, topic)
        self._ti = context["ti"]
        self._key = xcom_key(topic)
        self._tasks = list(dict.fromkeys([self._ti.task_id, *tasks]))
        self.where = f"XCom {self._key!r} of task {' or '.join(self._tasks)}"

    def get(self) -> str | None:
        try:
            pulled = self._ti.xcom_pull(
                task_ids=self._tasks, key=self._key, include_prior_dates=True, map_indexes=None
            )
        except Exception as error:
            raise TransportError(
                f"{self.where} could not be read: {type(error).__name__}: {error}. Nothing was fetched; try again when Airflow's API server answers."
            ) from error
        records = [record for record in pulled or [] if record is not None]
        return newest(records, self._of, self.where)

    def set(self, record: str) -> None:
        try:
            self._ti.xcom_push(self._key, record)
        except Exception as error:
            raise TransportError(
                f"{self.where} could not be written: {type(error).__name__}: {error}. The batch is landed; the next try only moves the position."
            ) from error


def newest(records: Iterable[str], of: tuple[str, str, str], where: str) -> str | None:
    """Of one org's, consumer's and topic's records that of the epoch last written to, and in it the highest sequence.

    :param of: org id, consumer, topic.
    :raises ConfigurationError: one of them is no position.
    """
    found = [(Position.from_json(record, where), record) for record in records]
    own = [
        (position, record)
        for position, record in found
        if (position.org_id, position.consumer, position.topic) == of
    ]
    if not own:
        return None
    epoch = max(own, key=lambda one: one[0].committed_at)[0].epoch
    return max((one for one in own if one[0].epoch == epoch), key=lambda one: one[0].sequence)[1]
