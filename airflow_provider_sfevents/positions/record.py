"""How far a consumer has come on a topic: one small record, and the only ways in which it changes. Pure.

    begin      sequence 0, where the first run starts; a new epoch
    advance    one batch further, and only over a batch that begins where the position stands

Everything else (another org, another task, a hand-edited value, a newer release's record) is refused with the place where the record is
kept and what to do about it.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_provider_sfevents.exceptions import PositionConflict
from airflow_provider_sfevents.positions import text
from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.staging.manifest import Manifest

VERSION = 1

RECENT = 10
"""Commits a position remembers: enough to see a rhythm, and to go back by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One move of a position.

    :param replay_id: where it went to; hex.
    :param at: ISO-8601, UTC.
    """

    sequence: int
    batch_id: str
    replay_id: str
    events: int
    at: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """How far a consumer has come on a topic.

    :param epoch: random; a position that is reset begins a new one, so that old batches are never taken for new.
    :param sequence: batches committed in this epoch.
    :param replay_id: hex, of the last event committed; at sequence 0 also `earliest` or `latest`.
    :param batch_id: the last batch committed; empty at sequence 0.
    :param events_total: events committed in this epoch.
    :param last_event_at: when the last event committed was created, where it said; ISO-8601, UTC.
    :param committed_at: when this record was written.
    :param committed_by: the task that wrote it.
    :param owner: `<dag>.<task>` that fetches for this position; in a chain it is not the one that commits.
    :param recent: the last commits, oldest first.
    :param losses: every loss window there was.
    """

    org_id: str
    instance_url: str
    topic: str
    consumer: str
    epoch: str
    sequence: int
    replay_id: str
    committed_at: str
    batch_id: str = ""
    events_total: int = 0
    last_event_at: str = ""
    committed_by: Run = field(default_factory=Run)
    owner: str = ""
    recent: tuple[Commit, ...] = ()
    losses: tuple[dict[str, Any], ...] = ()

    @property
    def start(self) -> str:
        """Where the next batch begins: `earliest`, `latest` or a replay id in hex."""
        return self.replay_id

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, record: str, where: str) -> Position:
        """Read a record; strict, since a position that is read wrongly loses events.

        :param where: the place it is kept, as a user knows it; for messages.
        :raises ConfigurationError: it is no position, or one that a newer release wrote.
        """
        value = text.parse(record, VERSION, _TYPES, where)
        try:
            position = cls(
                **{
                    **value,
                    "committed_by": Run(**value["committed_by"]),
                    "recent": tuple(Commit(**one) for one in value["recent"]),
                    "losses": tuple(value["losses"]),
                }
            )
        except TypeError as error:
            raise text.unusable(where, str(error)) from error
        _check(position, where)
        return position


def begin(
    *,
    org_id: str,
    instance_url: str,
    topic: str,
    consumer: str,
    start: str,
    at: str,
    by: Run,
    epoch: str = "",
    losses: Sequence[dict[str, Any]] = (),
) -> Position:
    """Where a first run, or one after a reset, starts.

    :param start: `earliest`, `latest` or a replay id in hex.
    :param epoch: random where it is not given.
    """
    return Position(
        org_id=org_id,
        instance_url=instance_url,
        topic=topic,
        consumer=consumer,
        epoch=epoch or secrets.token_hex(6),
        sequence=0,
        replay_id=start,
        committed_at=at,
        committed_by=by,
        owner=_task(by),
        losses=tuple(losses),
    )


def advance(
    position: Position, manifest: Manifest, committed_at: str, committed_by: Run
) -> Position:
    """Move a position over a landed batch.

    A commit that is repeated, since its first answer was lost, gives the position as it is.

    :raises PositionConflict: the batch does not begin where the position stands.
    """
    if is_committed(position, manifest):
        return position
    if why := _contradiction(position, manifest):
        raise PositionConflict(
            f"Batch {manifest.batch_id} of {manifest.topic} cannot be committed: {why}. The position stays where it is. Somebody "
            "else moved or reset it meanwhile; the next run goes on from where it is now."
        )
    commit = Commit(
        sequence=manifest.sequence,
        batch_id=manifest.batch_id,
        replay_id=manifest.end,
        events=manifest.events,
        at=committed_at,
    )
    return replace(
        position,
        sequence=manifest.sequence,
        replay_id=manifest.end,
        batch_id=manifest.batch_id,
        events_total=position.events_total + manifest.events,
        last_event_at=manifest.last_event_at or position.last_event_at,
        committed_at=committed_at,
        committed_by=committed_by,
        owner=position.owner or _task(manifest.run),
        recent=(*position.recent, commit)[-RECENT:],
        losses=(*position.losses, *manifest.losses),
    )


def is_committed(position: Position, manifest: Manifest) -> bool:
    """Whether the position already stands at the end of this very batch."""
    return (position.epoch, position.sequence, position.replay_id) == (
        manifest.epoch,
        manifest.sequence,
        manifest.end,
    )


def check_org(position: Position, org_id: str, instance_url: str, where: str) -> None:
    """Refuse a position of another org or instance: its replay ids mean other places there, or none.

    :raises PositionConflict:
    """
    if position.org_id == org_id and _host(position.instance_url) == _host(instance_url):
        return
    raise PositionConflict(
        f"{where} is a position in org {position.org_id} at {position.instance_url}, and the connection leads to org {org_id} at "
        f"{instance_url}. Replay ids of one mean nothing in the other. Give the task a `consumer` of its own for the new one; or, if "
        f"the org was moved or refreshed for good, delete {where} and the folder of the old org in the staging area."
    )


def check_owner(position: Position, run: Run, where: str) -> None:
    """Refuse a second task on a position: each would take events away from the other.

    :raises PositionConflict:
    """
    task = _task(run)
    if not task or not position.owner or position.owner == task:
        return
    raise PositionConflict(
        f"{where} belongs to task {position.owner}, and {task} wants to fetch from it too. Two tasks would each get half of the events: "
        f"name a `consumer` of its own for {task}. If {position.owner} was renamed to {task}, change `owner` in {where}."
    )


def _contradiction(position: Position, manifest: Manifest) -> str:
    for name in ("org_id", "topic", "consumer", "epoch"):
        if getattr(position, name) != getattr(manifest, name):
            return f"it is of {name} {getattr(manifest, name)!r}, the position of {getattr(position, name)!r}"
    if manifest.sequence != position.sequence + 1:
        return (
            f"it has sequence {manifest.sequence}, and the position stands at {position.sequence}"
        )
    if manifest.position_start != position.start:
        return f"it was fetched for a position at {manifest.position_start}, which now is at {position.start}"
    return ""


def _check(position: Position, where: str) -> None:
    """Refuse what types alone do not tell."""
    if position.sequence < 0 or position.events_total < 0:
        raise text.unusable(where, "`sequence` and `events_total` must be 0 or more")
    if not text.is_epoch(position.epoch):
        raise text.unusable(
            where,
            f"`epoch` is {position.epoch!r}; it must be a word of letters, digits, - and _",
        )
    presets = text.PRESETS if position.sequence == 0 else ()
    if position.replay_id not in presets and not text.is_replay_id(position.replay_id):
        also = f", or {' or '.join(presets)}" if presets else ""
        raise text.unusable(
            where,
            f"`replay_id` is {position.replay_id!r}; it must be a replay id in lower-case hex, as manifests show it{also}",
        )


def _task(run: Run) -> str:
    return f"{run.dag}.{run.task}" if run.dag else ""


def _host(url: str) -> str:
    """Host without port: an emulator comes back at another one."""
    return urlsplit(url).hostname or url


_TYPES: dict[str, type] = {
    one.name: {
        "sequence": int,
        "events_total": int,
        "committed_by": dict,
        "recent": list,
        "losses": list,
    }.get(one.name, str)
    for one in fields(Position)
}
