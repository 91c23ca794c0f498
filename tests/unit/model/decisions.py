"""The package's decision functions, called with values of the model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_sfevents import exceptions
from airflow_provider_sfevents.batches import recovery, reruns
from airflow_provider_sfevents.batches.next_batch import NextBatch, keepalive_points
from airflow_provider_sfevents.batches.outcome import BatchRequest
from airflow_provider_sfevents.batches.position import open_position, replay_fallback
from airflow_provider_sfevents.batches.position.position_writes import _without_hint
from airflow_provider_sfevents.positions import record
from airflow_provider_sfevents.positions.stores import MappingStore
from airflow_provider_sfevents.replay_point import ReplayPoint
from airflow_provider_sfevents.staging.lease_holder import LeaseState, LifeSigns, judge
from airflow_provider_sfevents.staging.manifest import Manifest, Part, Run
from airflow_provider_sfevents.staging.sidecar_files import Origin
from airflow_provider_sfevents.staging.sweeping import BatchState, to_sweep
from tests.unit.model import beside, rules as broken
from tests.unit.model.world import (
    Area,
    Batch,
    Key,
    Lease,
    World,
    at_time,
    manifest,
    position,
    receipt,
    remember,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.batches.recovery import CommitPlan, FetchPlan, ReusePlan
    from airflow_provider_sfevents.staging.keepalive_point import KeepalivePoint
    from tests.unit.model.rules import Rules

TOPIC, CONSUMER, ORG = "/event/Order__e", "orders", "00D000000000001AAA"
_STORE = MappingStore({}, "model")


@remember
def task(run: int, life: int = 1) -> Run:
    """The task of a run, at its try."""
    return Run(dag="orders", run=f"run-{run}", task="land", try_number=life, run_after=at_time(run))


@remember
def begun(
    run: int, epoch: str, tick: int, start: str = "earliest", area: str = "", previous: str = ""
) -> str:
    """A first run's position, as text."""
    return record.begin(
        org_id=ORG,
        instance_url="https://acme.my.salesforce.com",
        topic=TOPIC,
        consumer=CONSUMER,
        start=start,
        at=at_time(tick),
        by=task(run),
        epoch=epoch,
        staging_id=area,
        previous_epoch=previous,
    ).to_json()


@remember
def pinned(store: str, replay_id: str, by: str, area: str) -> str:
    """The position with a replay id instead of `latest`, as text."""
    return record.pin(position(store), replay_id, by=by, staging_id=area).to_json()


@remember
def moved_on(store: str, replay_id: str) -> str:
    """The position after a keepalive, as text. Times are left out: they decide nothing."""
    return record.move_on(position(store), replay_id, at_time(0)).to_json()


@remember
def noted(store: str, area: str, events: int) -> str:
    """The position with the hint of a wait, as text."""
    return record.note_wait(position(store), area, events).to_json()


@remember
def taken(store: str, area: str) -> str:
    """The position with another staging area, as text."""
    return record.work_in(position(store), area).to_json()


@remember
def fallen_back(store: str, choice: str) -> str:
    """The position after its replay id was refused, as text; empty: `replay_fallback` is `fail`."""
    try:
        lost = replay_fallback.choose(
            position(store), choice, exceptions.ReplayIdRefusedError("refused"), _STORE
        )
    except exceptions.ReplayIdRefusedError:
        return ""
    return replace(lost, loss=lost.loss and replace(lost.loss, at=at_time(0))).to_json()


@remember
def same_but_hint(found: str, base: str) -> bool:
    """Return whether the store holds the record that a task decides by."""
    found_, base_ = (position(one) if one else None for one in (found, base))
    return _without_hint(found_) == _without_hint(base_)


@remember
def elsewhere(store: str, area: str) -> str:
    """Reason to refuse a position that only another area can continue; empty: none."""
    try:
        open_position.refuse_elsewhere(position(store), area, _STORE)
    except exceptions.PositionConflictError as refused:
        return str(refused)
    return ""


def with_origin(world: World, index: int, text: str) -> World:
    """The world once an area knows the beginning of an epoch; a repetition changes nothing."""
    area, first = world.areas[index], position(text)
    if any(one.epoch == first.epoch for one in area.origins):
        return world
    origin = Origin(
        epoch=first.epoch,
        previous=first.previous_epoch,
        created_at=first.committed_at,
        position=text,
    )
    return world.area(index, area._replace(origins=(*area.origins, origin)))


@remember
def part(lease: int, ordinal: int, start: str, events: tuple[int, ...]) -> Part:
    """A closed file.

    :param events: their numbers on the bus.
    """
    return Part(
        path=f"attempts/{lease:04d}/part-{ordinal:010d}.parquet",
        start=start,
        end=f"{events[-1]:02x}",
        first_ordinal=ordinal,
        events=len(events),
        bytes=len(events),
        sha256="",
        schemas=("s",),
    )


@remember
def staged(store: str, parts: tuple[Part, ...], tick: int, run: int, life: int) -> str:
    """The manifest of the batch after a position, as text."""
    stands = position(store)
    return Manifest(
        org_id=stands.org_id,
        instance_url=stands.instance_url,
        topic=stands.topic,
        consumer=stands.consumer,
        epoch=stands.epoch,
        batch_number=stands.batch_number + 1,
        batch_id=f"{stands.epoch}-{stands.batch_number + 1}",
        position_start=stands.replay_id,
        start=stands.start.to_text(),
        end=parts[-1].end,
        events=sum(part.events for part in parts),
        bytes=sum(part.bytes for part in parts),
        ended_by="idle_seconds",
        parts=parts,
        schemas=("s",),
        created_at=at_time(tick),
        run=task(run, life),
        losses=(stands.loss,) if stands.loss else (),
    ).to_json()


def next_key(text: str) -> Key:
    """The batch after a position."""
    return position(text).epoch, position(text).batch_number + 1


def own_batch(area: Area, store: str, run: int, life: int) -> Manifest | None:
    """The batch that a retry's earlier tries have committed."""
    request = BatchRequest(topic=TOPIC, consumer=CONSUMER, run=task(run, life))
    if not reruns.may_own_a_batch(request):
        return None
    kept = [manifest(batch.manifest) for batch in reversed(area.batches) if batch.manifest]
    return reruns.own_batch(request, position(store) if store else None, kept)


@remember
def stale(landed: open_position.Landed | None, store: str) -> str:
    """Reason to refuse the position that a run has read; empty: it is not refused."""
    try:
        open_position.refuse_stale(position(store), landed, _STORE)
    except exceptions.PositionConflictError as refused:
        return str(refused)
    return ""


def lost(area: Area) -> str:
    """Reason to refuse a missing position; empty: it is a first run."""
    return _lost(newest_landed(area), in_order(area.origins))


@remember
def _lost(landed: open_position.Landed | None, origins: tuple[Origin, ...]) -> str:
    begun = [
        open_position.EpochStart(
            epoch=one.epoch, at=one.created_at, by=position(one.position).committed_by
        )
        for one in origins
    ]
    try:
        open_position.refuse_lost(
            landed, begun, BatchRequest(topic=TOPIC, consumer=CONSUMER), _STORE
        )
    except exceptions.PositionConflictError as refused:
        return str(refused)
    return ""


def newest_landed(area: Area) -> open_position.Landed | None:
    """As `open_position.newest_landed` reads it from the folders."""
    if not (landed := [batch for batch in area.batches if batch.receipt]):
        return None
    epochs = _epochs(area)
    newest = max(landed, key=lambda batch: (epochs.index(batch.key[0]), batch.key[1]))
    return open_position.Landed(
        epoch=newest.key[0],
        batch_number=newest.key[1],
        end=recovery.as_landed(manifest(newest.manifest), receipt(newest.receipt)).end,
        older_epochs=frozenset(epochs[: epochs.index(newest.key[0])]),
    )


@remember
def in_order(origins: tuple[Origin, ...]) -> tuple[Origin, ...]:
    return tuple(sorted(origins, key=lambda origin: (origin.created_at, origin.epoch)))


def _epochs(area: Area) -> list[str]:
    """Epochs, oldest first; those without an origin and a staged batch come last."""
    known = [origin.epoch for origin in in_order(area.origins)]
    return known + sorted({batch.key[0] for batch in area.batches} - set(known))


def plan(
    store: str, batch: Batch, parts: tuple[Part, ...], keepalive_point: KeepalivePoint | None
) -> CommitPlan | ReusePlan | FetchPlan | None:
    """Plan for the content of the batch's folder; None: it is refused."""
    return _plan(store, batch.manifest, batch.receipt, parts, keepalive_point)


@remember
def as_landed(staged: str, landed: str) -> str:
    """A batch's manifest, in the form that has landed."""
    return recovery.as_landed(manifest(staged), receipt(landed)).to_json()


@remember
def _plan(
    store: str,
    staged: str,
    landed: str,
    parts: tuple[Part, ...],
    keepalive_point: KeepalivePoint | None,
) -> CommitPlan | ReusePlan | FetchPlan | None:
    next_batch = NextBatch.after(position(store))
    found = recovery.BatchContents(
        position_start=next_batch.position_start,
        start=next_batch.start,
        keepalive_points=keepalive_points(
            next_batch, beside.folder(Area(keepalive_point=keepalive_point))
        ),
        manifest=manifest(staged) if staged else None,
        receipt=receipt(landed) if staged and landed else None,
        parts=() if staged else parts,
    )
    try:
        return recovery.plan(found)
    except exceptions.PositionConflictError:
        return None


@remember
def kept_files(start: str, parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Closed files that the next attempt keeps."""
    plan = recovery.plan(
        recovery.BatchContents(position_start=start, start=ReplayPoint(start), parts=parts)
    )
    assert isinstance(plan, recovery.FetchPlan)
    return plan.kept


@remember
def is_batch_after(store: str, staged: str) -> bool:
    """Return whether a batch begins at the position's replay id, as `check_before_landing` does."""
    return position(store).replay_id == manifest(staged).position_start


@remember
def has_landed(staged: str, landed: str) -> bool:
    """Return whether a batch's receipt proves that it landed."""
    try:
        recovery.require_landed(manifest(staged), receipt(landed) if landed else None, "")
    except exceptions.NotLandedError:
        return False
    return True


@remember
def moved(store: str, staged: str, by: tuple[int, int], area: str, keeps: bool) -> str:
    """The position after a batch, as text; empty: refused.

    :param by: run and life of the task.
    :param keeps: the package's rule holds; otherwise the position moves to the batch's end from
        anywhere.
    """
    try:
        after = record.advance(
            position(store), manifest(staged), at_time(0), task(*by), staging_id=area
        )
    except exceptions.PositionConflictError:
        if keeps:
            return ""
        batch = manifest(staged)
        after = replace(position(store), batch_number=batch.batch_number, replay_id=batch.end)
    return after.to_json()


@remember
def is_done(store: str, staged: str) -> bool:
    """Return whether the position is at the batch's end or past it."""
    one, batch = position(store), manifest(staged)
    return record.is_committed(one, batch) or record.is_past(one, batch)


def verdict(world: World, rules: Rules, lease: Lease, *, stopped: bool) -> LeaseState:
    """An observer's verdict on a lease holder.

    :param stopped: the holder is alive without a lease heartbeat: a frozen machine, a lost network.
    """
    alive = any(one.me == lease.by and one.at != "done" for one in world.workers)
    if not rules.keeps(broken.LEASE):
        return LeaseState.FREE
    return _verdict(lease.released, alive, rules.one_host, stopped)


@remember
def _verdict(released: bool, alive: bool, one_host: bool, stopped: bool) -> LeaseState:
    heartbeats = alive and not stopped
    return judge(
        LifeSigns(
            released=released,
            process_alive=alive if one_host else None,
            first_heartbeat="1",
            last_heartbeat="2" if heartbeats else "1",
            watched_seconds=30.0,
        )
    )


def swept(
    area: Area, keep_batches: int, one_host: bool, living: frozenset[tuple[str, int]]
) -> Area:
    """The area without the batches that may go; a holder that may be alive keeps its batch."""
    epochs = _epochs(area)
    batches = sorted(area.batches, key=lambda batch: (epochs.index(batch.key[0]), batch.key[1]))
    states = [_state(batch, one_host, living) for batch in batches]
    newest = newest_landed(area)
    newest_receipt = (newest.epoch, newest.batch_number) if newest else None
    last = newest_receipt and [batch.key for batch in batches].index(newest_receipt) + 1
    old = states[: max(0, (last or len(states)) - keep_batches)]
    for state in to_sweep(old, newest_receipt, epochs[-1]) if old else ():
        area = area.without((state.epoch, state.batch_number))
    return area


def _state(batch: Batch, one_host: bool, living: frozenset[tuple[str, int]]) -> BatchState:
    held = False
    if batch.leases:
        last = batch.leases[-1]
        signs = LifeSigns(
            released=last.released,
            process_alive=last.by in living if one_host else None,
            first_heartbeat="1",
            last_heartbeat="1",
        )
        held = judge(signs) in (LeaseState.ALIVE, LeaseState.WATCH)
    return BatchState(
        epoch=batch.key[0],
        batch_number=batch.key[1],
        staged=bool(batch.manifest),
        landed=bool(batch.receipt),
        held=held,
    )
