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
from airflow_provider_sfevents.staging.manifest import LossWindow, Run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_sfevents.staging.manifest import Manifest

VERSION = 1

_NOBODY = text.Whose()

RECENT = 10
"""Commits a position remembers: enough to see a rhythm, and to go back by hand."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One move of a position.

    :param replay_id: where it went to; hex.
    :param at: ISO-8601, UTC.
    :param run: the Airflow run that committed; a batch that one run staged may be landed by the next.
    """

    sequence: int
    batch_id: str
    replay_id: str
    events: int
    at: str
    run: str = ""


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
    losses: tuple[LossWindow, ...] = ()

    @property
    def start(self) -> str:
        """Where the next batch begins: `earliest`, `latest` or a replay id in hex."""
        return self.replay_id

    def to_json(self) -> str:
        return json.dumps({"version": VERSION, **asdict(self)}, indent=1)

    @classmethod
    def from_json(cls, record: str, where: str, whose: text.Whose = _NOBODY) -> Position:
        """Read a record; strict, since a position that is read wrongly loses events.

        :param where: the place it is kept, as a user knows it; for messages.
        :param whose: for the commands in messages.
        :raises ConfigurationError: it is no position, or one that a newer release wrote.
        """
        value = text.parse(record, VERSION, _TYPES, where, whose)
        try:
            position = cls(
                **{
                    **value,
                    "committed_by": Run(**value["committed_by"]),
                    "recent": tuple(Commit(**one) for one in value["recent"]),
                    "losses": tuple(LossWindow(**one) for one in value["losses"]),
                }
            )
        except TypeError as error:
            raise text.unusable(where, whose, str(error)) from error
        if wrong := _wrong_in(position):
            raise text.unusable(where, whose, wrong)
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
    losses: Sequence[LossWindow] = (),
    owns: bool = True,
) -> Position:
    """Where a first run, or one after a reset, starts.

    :param start: `earliest`, `latest` or a replay id in hex.
    :param epoch: random where it is not given.
    :param owns: whether `by` is who fetches; otherwise the task that first commits becomes the owner.
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
        owner=_task(by) if owns else "",
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
        run=committed_by.run,
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


def is_past(position: Position, manifest: Manifest) -> bool:
    """Whether the batch was committed earlier, with others after it: landed again, it moves nothing.

    Not so where a commit that is remembered says that another copy of the batch counted, with another end.
    """
    if manifest.epoch != position.epoch or manifest.sequence >= position.sequence:
        return False
    remembered = [one for one in position.recent if one.sequence == manifest.sequence]
    return all(one.replay_id == manifest.end for one in remembered)


def overlaps(position: Position) -> bool:
    """Whether the bus may deliver events again that have landed: after a loss window, until a later event was committed."""
    return bool(position.losses) and position.last_event_at <= position.losses[-1].at


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


def _wrong_in(position: Position) -> str:
    """What types alone do not tell; empty where nothing is wrong."""
    if position.sequence < 0 or position.events_total < 0:
        return "`sequence` and `events_total` must be 0 or more"
    if not text.is_epoch(position.epoch):
        return f"`epoch` is {position.epoch!r}; it must be a word of letters, digits, - and _"
    presets = text.PRESETS if position.sequence == 0 else ()
    if position.replay_id not in presets and not text.is_replay_id(position.replay_id):
        also = f", or {' or '.join(presets)}" if presets else ""
        return f"`replay_id` is {position.replay_id!r}; it must be a replay id in lower-case hex, as manifests show it{also}"
    return _wrong_time(position) or _wrong_within(position)


def _wrong_time(position: Position) -> str:
    """Times that are computed with; those that are only shown may be anything."""
    times = {
        "committed_at": position.committed_at,
        "last_event_at": position.last_event_at,
        "committed_by.run_after": position.committed_by.run_after,
    }
    return ", ".join(
        f"`{name}` is {value!r}; it must be a time with its zone in ISO 8601"
        for name, value in times.items()
        if (value or name == "committed_at") and not text.is_time(value)
    )


def _wrong_within(position: Position) -> str:
    parts: list[tuple[str, Any]] = [
        ("committed_by", position.committed_by),
        *((f"recent[{n}]", commit) for n, commit in enumerate(position.recent)),
        *((f"losses[{n}]", loss) for n, loss in enumerate(position.losses)),
    ]
    return ", ".join(
        f"`{name}.{one.name}` is {getattr(part, one.name)!r}"
        for name, part in parts
        for one in fields(part)
        if type(getattr(part, one.name)).__name__ != one.type
    )


def check_whose(position: Position, whose: text.Whose, where: str) -> None:
    """Refuse a position that was copied from another consumer or topic.

    :raises PositionConflict:
    """
    if not whose.is_known or (position.consumer, position.topic) == (whose.consumer, whose.topic):
        return
    raise PositionConflict(
        f"{where} holds the position of consumer {position.consumer!r} on {position.topic}, and not of {whose.consumer!r} on "
        f"{whose.topic}: somebody copied it there. Nothing was fetched, and nothing was moved. Begin anew: {whose.command('forget')}; or "
        f"write where to go on: {whose.command('set', '<replay id>')}."
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
