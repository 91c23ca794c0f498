"""Arguments of every operator that fetches, and staging of a batch by them."""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlencode

from airflow.sdk import BaseOperator, BaseOperatorLink
from airflow.sdk.configuration import conf
from airflow.sdk.exceptions import AirflowSkipException
from typing_extensions import override

from airflow_provider_sfevents.batches.commit import COMMIT_SECONDS
from airflow_provider_sfevents.batches.outcome import Empty
from airflow_provider_sfevents.batches.position.replay_fallback import check_choice
from airflow_provider_sfevents.batches.stage import stage_batch
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.argument_types import check_types
from airflow_provider_sfevents.hooks.run_context import (
    checked_consumer,
    find_announcement,
    refuse_repeated_topics,
)
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.hooks.staging_access import open_staging
from airflow_provider_sfevents.hooks.task_thread import run_async
from airflow_provider_sfevents.hooks.topic_arguments import ReadsTopic
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.rest.org_limits import check_least
from airflow_provider_sfevents.pubsub.topic_names import setup_page
from airflow_provider_sfevents.staging.sweeping import NO_TIME, check_keep_batches, check_keep_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from airflow.sdk import Context

    from airflow_provider_sfevents.batches.outcome import BatchRequest, Staged
    from airflow_provider_sfevents.hooks.task_thread import Stopping
    from airflow_provider_sfevents.positions.stores import PositionStore
    from airflow_provider_sfevents.staging.area import StagingArea


T = TypeVar("T")

_WRITES_PARQUET = "airflow_provider_sfevents.staging.parts.part_writer"


@dataclass(slots=True, kw_only=True)
class StageTimes:
    """Seconds that each stage of a task took, for its log.

    :param begun_at: time at which the task began.
    :param reached_at: monotonic seconds at which it reached its last stage; `clock` returns them.
    :param announced_at: time at which a watcher's announcement was stored, if it has started the
        run. Its clock may be another machine's.
    """

    begun_at: datetime
    reached_at: float
    announced_at: datetime | None = None
    clock: Callable[[], float] = monotonic
    took: dict[str, float] = field(default_factory=dict)

    def reached(self, stage: str) -> None:
        """Record that a stage has been reached."""
        now = self.clock()
        self.took[stage] = now - self.reached_at
        self.reached_at = now

    @override
    def __str__(self) -> str:
        """Describe the stages: `task begun 1.2 s after the announcement, staged in 0.8 s`."""
        told = []
        if self.announced_at is not None:
            waited = (self.begun_at - self.announced_at).total_seconds()
            told.append(f"task begun {waited:.1f} s after the announcement")
        told += [f"{stage} in {seconds:.1f} s" for stage, seconds in self.took.items()]
        return ", ".join(told)


class SfEventsPositionLink(BaseOperatorLink):
    """Link from a task to its batch on the page *Salesforce events*.

    Airflow stores links when the task has ended; a fetching task stores them at its beginning, too,
    so that they are there while the task runs.
    """

    name = "Salesforce events"
    section = ""

    @override
    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the page's URL.

        :param operator: rendered; one that fetches, or has a fetching task's result as `batch`.
        """
        batch = getattr(operator, "batch", None)
        of = batch if isinstance(batch, dict) else {}
        consumer = of.get("consumer") or getattr(operator, "consumer", None) or ti_key.dag_id
        topic = of.get("topic") or getattr(operator, "topic", "")
        query = {"consumer": consumer, "topic": topic, "run": ti_key.run_id}
        base = conf.get("api", "base_url", fallback="").rstrip("/")
        return f"{base}/plugin/salesforce_events?{urlencode(query)}{self.section}"


class SfEventsTablesLink(SfEventsPositionLink):
    """Link from a task to the tables of its position; Airflow shows no links with `s3a://`."""

    name = "Salesforce tables"
    section = "#tables"


class SfEventsSetupLink(BaseOperatorLink):
    """Link from a task that has staged a batch to the org's Setup."""

    name = "Salesforce Setup"

    @override
    def get_link(self, operator: Any, *, ti_key: Any) -> str:
        """Return the URL of the page that has the topic; empty before the task knows its org."""
        instance_url = getattr(operator, "instance_url", "")
        return setup_page(instance_url, operator.topic) if instance_url else ""


class FetchesBatch(ReadsTopic, BaseOperator):
    """Arguments of every operator that fetches a batch; not for use in a DAG.

    :param topic: topic to subscribe to: `/event/Order__e`, `/data/AccountChangeEvent`,
        `/data/ChangeEvents`, a channel, `/topic/Orders` (PushTopic), `/u/Notices` (generic). Expand
        over it for many topics. (templated)
    :param conn_id: connection of type `sfevents`.
    :param transport: Salesforce's API: `pubsub` or `streaming`. Default: that of the connection, or
        the Pub/Sub API; for PushTopics and generic channels always the Streaming API.
    :param consumer: owner of the position; two consumers of a topic have two positions. Letters,
        digits, dots, dashes and underscores. Default: the DAG's id. (templated)
    :param position_store: store of the position: `variable`, `asset`, `xcom`; your own store, as a
        dotted path, a callable or a mapping; or `managed`: Salesforce keeps the replay id of a
        managed event subscription.
    :param managed_subscription: with `managed`: its developer name or id. (templated)
    :param allow_latest_recovery: with `managed`: use it even if its errorRecoveryReplay is not
        EARLIEST, or cannot be read; events may then be lost silently.
    :param staging: URL of the staging area, which the workers write and Spark reads; any URL of
        `ObjectStoragePath`. Default: the folder `sfevents` below `AIRFLOW_HOME`. (templated)
    :param staging_shared: declares that the local folder given as `staging` is the same one on
        every machine on which Spark runs.
    :param initial_replay: start of the first run: `earliest` (lose nothing), `latest`, or a replay
        id in hex. (templated)
    :param replay_fallback: start after the bus has refused the stored replay id (expired, reset,
        invalid): `fail` leaves the decision to you, `earliest` takes all events that the bus still
        holds, `latest` those from then on. The last two record a loss window. Over the Streaming
        API, where a quiet topic's id expires, `fail` means `earliest` after the first batch.
    :param max_events: most events of a batch; never exceeded.
    :param max_bytes: the batch ends with the event that brings its payloads to this many bytes.
    :param max_seconds: bound of the fetch, and of the wait for an unavailable service. With
        `execution_timeout` it is shorter, to leave time for landing: it ends `timeout_reserve`
        seconds before the timeout, or at half of it if that is later.
    :param idle_seconds: the batch ends after this many seconds without an event. A batch that a
        sensor or watcher has announced does not wait for them: it takes what is staged and pending.
    :param settle_seconds: an announced batch of change events ends after this many seconds without
        an event, so that the rest of a transaction can come.
    :param until: the batch ends with the first event created at or after this time; ISO 8601.
        (templated)
    :param min_allowance: deliveries that the org must have left for the day; with fewer, no event
        is requested and the task fails. A batch that is staged already is landed all the same. One
        API request.
    :param commit_seconds: seconds for which the commit of a landed batch is retried if the position
        store does not answer.
    :param keep_batches: number of committed batches that stay in the staging area.
    :param keep_for: time after its landing for which a batch stays there, too, so that Spark jobs
        that read staged batches can fall behind as long.
    :param skip_when_empty: without an event the task is skipped, with the tasks after it; otherwise
        it succeeds with 0 `events` in its result.
    """

    template_fields: Sequence[str] = (
        "topic",
        "consumer",
        "managed_subscription",
        "staging",
        "initial_replay",
        "until",
    )

    operator_extra_links = (SfEventsPositionLink(), SfEventsTablesLink(), SfEventsSetupLink())

    instance_url = ""

    keeps_position = True

    timeout_reserve = 30.0
    """Seconds of `execution_timeout` that are kept for the steps after the fetch."""

    stages: StageTimes

    _begun_at = 0.0

    def __init__(
        self,
        *,
        topic: str,
        conn_id: str = SfEventsHook.default_conn_name,
        transport: str | None = None,
        consumer: str | None = None,
        position_store: Any = "variable",
        managed_subscription: str | None = None,
        allow_latest_recovery: bool = False,
        staging: str | None = None,
        staging_shared: bool = False,
        initial_replay: str = "earliest",
        replay_fallback: str = "fail",
        max_events: int = 10_000,
        max_bytes: int | None = None,
        max_seconds: float = 600.0,
        idle_seconds: float = 30.0,
        settle_seconds: float = 1.0,
        until: str | datetime | None = None,
        min_allowance: int | None = None,
        commit_seconds: float = COMMIT_SECONDS,
        keep_batches: int = 10,
        keep_for: timedelta = NO_TIME,
        skip_when_empty: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.topic = topic
        self.conn_id = conn_id
        self.transport = transport
        self.consumer = checked_consumer(consumer)
        self.position_store = position_store
        self.managed_subscription = managed_subscription
        self.allow_latest_recovery = allow_latest_recovery
        self.staging = staging
        self.staging_shared = staging_shared
        self.initial_replay = initial_replay
        self.replay_fallback = check_choice(replay_fallback)
        self.max_events = max_events
        self.max_bytes = max_bytes
        self.max_seconds = max_seconds
        self.idle_seconds = idle_seconds
        self.settle_seconds = settle_seconds
        self.until = until
        self.min_allowance = check_least(min_allowance)
        self.commit_seconds = commit_seconds
        self.keep_batches = check_keep_batches(keep_batches)
        self.keep_for = check_keep_for(keep_for)
        self.skip_when_empty = skip_when_empty
        check_types(self, FetchesBatch)
        self._bounds(until=None).of_announced(settle_seconds, follows_transactions=False)
        self._check_arguments()

    @override
    def run_stoppable(self, context: Context, work: Callable[[Stopping], T]) -> T:
        self._begun_at = monotonic()
        self.stages = StageTimes(begun_at=datetime.now(UTC), reached_at=self._begun_at)
        self._store_links(context, to_org=False)
        return super().run_stoppable(context, work)

    def _store_links(self, context: Context, *, to_org: bool) -> None:
        """Store the link to the org, which is known after staging, or those to the page."""
        instance = context.get("ti")
        for link in self.operator_extra_links if instance is not None else ():
            if isinstance(link, SfEventsSetupLink) is to_org:
                url = link.get_link(self, ti_key=instance)
                instance.xcom_push(key=link.xcom_key, value=url)

    @contextmanager
    def staged_batch(self, context: Context, stopping: Stopping) -> Iterator[Staged | Empty]:
        """Stage the batch after the position; its lease is held until the block ends.

        The batch is reused if an earlier try has staged it already.
        """
        request = self._request(context)
        area = open_staging(self.staging, self.executor)
        store = self._store_opener(context, request.consumer)
        staged = run_async(lambda requested: self._stage(request, area, store, requested), stopping)
        self.stages.reached("staged")
        try:
            of = staged.position if isinstance(staged, Empty) else staged.manifest
            self.instance_url = of.instance_url
            self._store_links(context, to_org=True)
            yield staged
        finally:
            staged.release()

    async def _stage(
        self,
        request: BatchRequest,
        area: StagingArea,
        store: Callable[[str], PositionStore],
        requested: asyncio.Event,
    ) -> Staged | Empty:
        # Loading pyarrow takes a few tenths of a second, in which the task can log in.
        asyncio.get_running_loop().run_in_executor(None, import_module, _WRITES_PARQUET)
        async with self._client(self.min_allowance) as client:
            return await stage_batch(request, client, area, store, requested)

    def nothing_came(self, empty: Empty) -> dict[str, Any]:
        """End a task that found no event; returns its result.

        :raises AirflowSkipException: unless `skip_when_empty=False`.
        """
        self.log.info("No event on %s (%s); the position stays.", self.topic, empty.ended_by)
        if self.skip_when_empty:
            raise AirflowSkipException(
                f"no event on {self.topic} after {empty.start} ({empty.ended_by})"
            )
        return empty.result()

    def _request(self, context: Context) -> BatchRequest:
        refuse_repeated_topics(context)
        bounds = self._bounds(until=_instant(self.until))
        request = self._batch_request(context, bounds, owns=True)
        announcement = find_announcement(context, request.topic, request.consumer)
        if announcement is None:
            return request
        self.stages.announced_at = announcement.at
        self.log.info(
            "A sensor or watcher has announced events of %s: taking what is staged and pending.",
            request.topic,
        )
        # Every change event is part of a transaction.
        announced = bounds.of_announced(
            self.settle_seconds,
            expected=announcement.events,
            follows_transactions=request.topic.startswith("/data/"),
        )
        return replace(request, bounds=announced, announced_batch=announcement.batch_id)

    def _bounds(self, until: datetime | None) -> Bounds:
        return Bounds(
            max_events=self.max_events,
            max_bytes=self.max_bytes,
            max_seconds=fetch_seconds(
                self.max_seconds, self.execution_timeout, self.timeout_reserve, self._elapsed()
            ),
            idle_seconds=self.idle_seconds,
            until=until,
        )

    def _elapsed(self) -> float:
        return monotonic() - self._begun_at if self._begun_at else 0.0


def fetch_seconds(
    max_seconds: float, timeout: timedelta | None, reserve: float, elapsed: float
) -> float:
    """Return the seconds that a fetch may take: `max_seconds`, or less by `execution_timeout`.

    :param reserve: seconds of the timeout for the steps after the fetch; never more than half of
        it.
    :param elapsed: seconds since the task began.
    """
    if timeout is None:
        return max_seconds
    seconds = timeout.total_seconds()
    return min(max_seconds, max(1.0, seconds - min(reserve, seconds / 2) - elapsed))


def _instant(value: object) -> datetime | None:
    """Parse `until` after rendering; a template may render to nothing.

    :raises ConfigurationError: it is no time.
    """
    if value is None or isinstance(value, datetime):
        return value
    if value in ("", "None"):
        return None
    try:
        return datetime.fromisoformat(value)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"until={value!r} is not a time; give ISO 8601 with an offset, such as "
            "2026-01-31T00:00:00+00:00"
        ) from error
