"""`SfEventsPublishOperator`: records from Airflow or from files, published to the event bus."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from typing_extensions import override

from airflow_provider_sfevents.counting import counted
from airflow_provider_sfevents.exceptions import ConfigurationError, StoppedError
from airflow_provider_sfevents.hooks.argument_types import check_types
from airflow_provider_sfevents.hooks.publish_task import RecordsToPublish, Tally, publish_records
from airflow_provider_sfevents.hooks.record_files import read_records, record_files
from airflow_provider_sfevents.hooks.run_context import check_constant, describe_run, tell_assets
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.hooks.staging_access import open_staging
from airflow_provider_sfevents.hooks.stoppable import StoppableTask
from airflow_provider_sfevents.hooks.task_thread import run_async
from airflow_provider_sfevents.pubsub.publishing import event_encoder
from airflow_provider_sfevents.pubsub.publishing.event_fields import abridged
from airflow_provider_sfevents.pubsub.topic_names import check_pubsub_topic
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from airflow.sdk import Context

    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.pubsub.publishing.event_encoder import GivenRecord


ANSWER_SECONDS = 4.0
"""Time for pending answers after a request to stop; Airflow kills the task after 5 s."""


class SfEventsPublishOperator(StoppableTask, BaseOperator):
    """Publish records as platform events.

    Every record is checked against the topic's schema first. If one does not fit, nothing is sent,
    and the error lists all mistakes. Then the records are sent over `PublishStream`, in requests of
    up to 200 events and 3 MB, several at a time. Events that the service refuses are sent again;
    the task fails only after all others are published.

    Delivery is at least once. If an answer is lost, with a stream or with the task, the event is
    sent again, and may be on the bus twice. It has the same id both times and in every try of the
    task, since the id follows from DAG, run, task, map index, record number and content. So a
    consumer can drop the repetition, as this package's landing does. A ledger in the staging area
    lists the accepted events; a retry sends the rest.

    Result:

    - `records`, `published` (in this try), `before` (in earlier tries), `failed`: numbers of
      records.
    - `repeated`: number of times that an event was sent again.
    - `first_replay_id`, `last_replay_id`: of the first and the last record, hex.
    - `ledger`: URL of the folder with every event's id and replay id.

    :param topic: a platform event: `/event/Order__e`. (templated)
    :param records: list of field names with values; usually another task's result. Times may be
        `datetime`, ISO 8601 or milliseconds; `CreatedDate` and `CreatedById` are filled in.
        (templated)
    :param files: in place of `records`: URL of a file, or of a folder of files, with JSON lines or
        Parquet; any URL of `ObjectStoragePath`. The files are read twice, and never kept in memory.
        (templated)
    :param conn_id: connection of type `sfevents`. (templated)
    :param id_field: field of a record that is its event's id, in place of a derived one; for
        records whose order may differ between tries. A field that the event does not have is used
        for the id only.
    :param staging: URL of the staging area. Default: the folder `sfevents` below `AIRFLOW_HOME`.
        (templated)
    :raises ConfigurationError: neither or both of `records` and `files` are given.
    """

    template_fields: Sequence[str] = ("topic", "records", "files", "conn_id", "staging")
    ui_color = "#e8f0fb"

    def __init__(
        self,
        *,
        topic: str,
        records: Any = None,
        files: str | None = None,
        conn_id: str = SfEventsHook.default_conn_name,
        id_field: str | None = None,
        staging: str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic = topic
        self.records = records
        self.files = files
        self.conn_id = conn_id
        self.id_field = id_field
        self.staging = staging
        self._reads_files = files is not None
        check_types(self, SfEventsPublishOperator)
        if (records is None) == (files is None):
            raise ConfigurationError(
                f"SfEventsPublishOperator {self.task_id!r} takes either `records` or `files`; give "
                "one of them."
            )
        check_constant(check_pubsub_topic, topic)

    @override
    def execute(self, context: Context) -> dict[str, Any]:
        done = self.run_stoppable(context, lambda stopping: self._run(context, stopping))
        tell_assets(context, self.outlets, done)
        return done

    def _run(self, context: Context, stopping: Stopping) -> dict[str, Any]:
        source = self._source()
        to_publish = RecordsToPublish(
            topic=self.topic,
            source=lambda: self._until_stopped(source()),
            run=describe_run(context),
            root=open_staging(self.staging, self.executor).root,
            id_field=self.id_field or "",
        )
        return run_async(lambda _: self._publish(to_publish), stopping, ANSWER_SECONDS)

    async def _publish(self, to_publish: RecordsToPublish) -> dict[str, Any]:
        tally = Tally()
        async with SfEventsHook(self.conn_id).pubsub_client() as client:
            ledger = await publish_records(client, to_publish, tally)
        self._refuse_end(tally)
        await asyncio.to_thread(ledger.sweep, datetime.now(UTC))
        return tally.result(self.topic, durable_files.url(ledger.folder))

    def _refuse_end(self, tally: Tally) -> None:
        """Raise unless all events are published.

        :raises EventsRefusedError: the service refused events.
        :raises StoppedError: the task was ended.
        """
        tally.refuse(self.topic)
        if self._killed:
            raise StoppedError(
                f"The task was ended while it published to {self.topic}; "
                f"{counted(tally.published + tally.before, 'event')} published so far. A retry "
                "sends the rest."
            )

    def _until_stopped(self, given: Iterator[GivenRecord]) -> Iterator[GivenRecord]:
        for one in given:
            if self._killed:
                return
            yield one

    def _source(self) -> Callable[[], Iterator[GivenRecord]]:
        """Return a function that reads the records from the first on, at each call.

        :raises ConfigurationError: there is no list of records, or no files of records at the URL.
        """
        if self._reads_files:
            files = record_files(self.files)
            return lambda: read_records(files)
        records = self.records
        if isinstance(records, str | bytes | Mapping) or not isinstance(records, Sequence):
            raise ConfigurationError(
                f"records={abridged(records)} is no list of records. Give a list of fields with "
                "values, such as the result of a task that returns one; for many records write "
                "files, and give their URL by `files`."
            )
        return lambda: event_encoder.numbered(records)
