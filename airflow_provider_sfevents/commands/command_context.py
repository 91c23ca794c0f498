"""Find the position, its store and its staging area by the arguments of a command."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow_provider_sfevents.batches.position.open_position import newest_landed
from airflow_provider_sfevents.commands.output import confirm, invocation
from airflow_provider_sfevents.commands.staged_batches import look
from airflow_provider_sfevents.commands.stores import only_org, open_row, orgs_in
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.hooks.staging_access import staging_root
from airflow_provider_sfevents.positions.record import VERSION, Position
from airflow_provider_sfevents.positions.record_text import check_consumer
from airflow_provider_sfevents.pubsub.topic_names import check_topic
from airflow_provider_sfevents.staging import layout
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.storage import durable_files

if TYPE_CHECKING:
    from argparse import Namespace

    from airflow_provider_sfevents.batches.position.open_position import Landed
    from airflow_provider_sfevents.commands.staged_batches import BatchOverview
    from airflow_provider_sfevents.commands.stores import ReachedStore
    from airflow_provider_sfevents.pubsub.auth.session import Session
    from airflow_provider_sfevents.staging.area import TopicFolder
    from airflow_provider_sfevents.staging.leases import Lease


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """A consumer's position on a topic, and its staged batches.

    :param folder: of the position's org; without a position, of the org that was found.
    :param session: of the org of `--conn-id`; None without a login.
    :param record: the store's text; None: there is none.
    :param position: None: there is no record, or it cannot be parsed.
    :param unreadable: the reason why the record cannot be parsed.
    """

    store: ReachedStore
    area: StagingArea
    folder: TopicFolder
    org_id: str
    session: Session | None
    record: str | None
    position: Position | None
    unreadable: str = ""

    @property
    def landed(self) -> Landed | None:
        """The newest batch that landed."""
        return newest_landed(self.folder)

    def next_batch(self) -> BatchOverview | None:
        """Return the batch after the position; None if no epoch was ever begun.

        If the position is lost, it is the batch after the newest landed one.
        """
        position, landed = self.position, self.landed
        if position is not None:
            return look(self.folder, position.epoch, position.batch_number + 1)
        if landed is not None:
            return look(self.folder, landed.epoch, landed.batch_number + 1)
        begun = self.last_begun()
        return look(self.folder, begun.epoch, 1) if begun else None

    def last_begun(self) -> Position | None:
        """Return the newest epoch's first position: it names instance and owner of a lost one."""
        origins = self.folder.origins()
        if not origins:
            return None
        where = f"The origin of epoch {origins[-1].epoch} in {self.folder.folder}"
        return Position.from_json(origins[-1].position, where)

    def lost_at(self) -> tuple[str, int]:
        """Return the epoch of a position whose record is lost, and its newest landed batch.

        The epoch is empty if none was begun; the batch number is 0 if none of it has landed.
        """
        origins, landed = self.folder.origins(), self.landed
        epoch = origins[-1].epoch if origins else ""
        return epoch, landed.batch_number if landed and landed.epoch == epoch else 0

    def require_unmoved(self) -> None:
        """Check that the store still has the record.

        :raises ConfigurationError: another process has written it.
        """
        if self.store.get() != self.record:
            raise ConfigurationError(
                f"{self.store.where} was moved by another process just now. Nothing was changed; "
                "show it, then run the command again."
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBatch:
    """The batch after a position, held by a command.

    :param batch: None: no epoch was ever begun, so there is no lease either.
    """

    reached: Reached
    batch: BatchOverview | None = None
    lease: Lease | None = None

    def confirm(self, args: Namespace, *what: str) -> None:
        """Ask as `output.confirm`, then check that no task went to work in the meantime.

        A command that is suspended at its question writes no lease heartbeat.

        :raises SfEventsError: a task has taken the batch, or the position has moved.
        """
        confirm(args, *what)
        if self.lease is not None:
            self.lease.check()
        self.reached.require_unmoved()


def reach(args: Namespace, *, mend: bool = False, may_log_in: bool = False) -> Reached:
    """Find the org, and with it the position, its store and its staging area.

    The org is the position's. If the store has positions of several orgs, the org of `--conn-id`
    selects one. Without a position the org is that of `--conn-id`, or the only one in the staging
    area, or that of the default connection.

    :param mend: accept a record that cannot be parsed, because the command replaces it.
    :param may_log_in: use the default connection if the org is not known otherwise.
    :raises SfEventsError: a record cannot be read, or there are several orgs, or none.
    """
    check_consumer(args.consumer)
    topic = check_topic(args.topic)
    root = staging_root(args.staging)
    area = StagingArea(root)
    session = log_in(args.conn_id) if args.conn_id else None
    org_id = session.org_id if session else ""
    org_id = org_id or only_org(
        orgs_in(args.position_store, args.consumer, topic), args.position_store
    )
    store = open_row(args.position_store, org_id=org_id, consumer=args.consumer, topic=topic)
    record = store.get()
    position, unreadable = _read(record, store.where)
    if unreadable and (not mend or is_of_newer_release(record)):
        instead = invocation(args, "position", "set", "latest")
        replace = "" if is_of_newer_release(record) else f" Or replace it, such as by: {instead}"
        raise ConfigurationError(f"{unreadable}{replace}")
    if position is not None:
        org_id = position.org_id
    org_id = org_id or only_org(_staged_orgs(area, args.consumer, topic), str(root))
    if not org_id and may_log_in:
        session = log_in(SfEventsHook.default_conn_name)
        org_id = session.org_id
    if not org_id and unreadable:
        raise ConfigurationError(
            f"{store.where} holds no position that names its org, and nothing is staged below "
            f"{root}. Name the org's connection: `--conn-id`."
        )
    if not org_id:
        raise ConfigurationError(
            f"There is no position of consumer {args.consumer!r} on {topic}: {store.where} does "
            f"not exist, and nothing is staged below {root}. If the task keeps its position or its "
            "batches elsewhere, give `--position-store` and `--staging`. If it has not run yet, "
            "its first run begins at its `initial_replay`."
        )
    return Reached(
        store=open_row(args.position_store, org_id=org_id, consumer=args.consumer, topic=topic),
        area=area,
        folder=area.topic(org_id, args.consumer, topic),
        org_id=org_id,
        session=session,
        record=record,
        position=position,
        unreadable=unreadable,
    )


def log_in(conn_id: str) -> Session:
    """Log in by a connection.

    :raises SfEventsError: the connection does not lead to an org.
    """

    async def session() -> Session:
        async with SfEventsHook(conn_id).pubsub_client() as client:
            return await client.session()

    return asyncio.run(session())


def require_topic(conn_id: str, topic: str, transport: str | None) -> None:
    """Check that the connection's org has a topic.

    :param transport: API for topics that both have; default: that of the connection.

    :raises SfEventsError: the org has no such topic, or does not answer; the message names the
        topic.
    """

    async def ask() -> None:
        async with SfEventsHook(conn_id).topic_client(topic, transport) as client:
            await client.require_readable(topic)

    asyncio.run(ask())


def require_staging(args: Namespace, reached: Reached) -> None:
    """Refuse to change a position if the default staging area has no batch of it.

    In the wrong staging area leases and staged batches would not be seen.

    :raises ConfigurationError: nothing is staged of this position, and no `--staging` was given.
    """
    if args.staging or reached.position is None or reached.folder.epochs():
        return
    raise ConfigurationError(
        f"Nothing of this consumer and topic is below {durable_files.url(reached.folder.folder)}, "
        "although there is a position. Give the task's staging area by `--staging` (its argument "
        "`staging`); the default is given as --staging file://$AIRFLOW_HOME/sfevents."
    )


def now() -> str:
    return datetime.now(UTC).isoformat()


def _read(record: str | None, where: str) -> tuple[Position | None, str]:
    """Parse a record; return the position, or the reason why the record cannot be parsed."""
    try:
        return (None if record is None else Position.from_json(record, where)), ""
    except ConfigurationError as error:
        return None, str(error)


def is_of_newer_release(record: str | None) -> bool:
    """Return whether a record may be valid for a newer release, so that it must not be replaced."""
    try:
        value = json.loads(record or "")
    except ValueError:
        return False
    version = value.get("version") if isinstance(value, dict) else None
    return isinstance(version, int) and version > VERSION


def _staged_orgs(area: StagingArea, consumer: str, topic: str) -> set[str]:
    """Return the orgs for which the staging area has a folder of this consumer and topic."""
    orgs = (name for name in durable_files.names(area.root) if name != layout.JOBS)
    return {
        org_id for org_id in orgs if durable_files.names(area.topic(org_id, consumer, topic).folder)
    }
