"""Delivery of an org's events in batches, with faults, and checks of the resulting tables."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import strategies as st

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.spark.changes.order import EventOrder
from airflow_provider_sfevents.spark.changes.resync_entries import WHOLE_ENTITY
from airflow_provider_sfevents.spark.changes.source import ChangeBatch, ChangeSource
from airflow_provider_sfevents.spark.changes.tables import APPLY_ORDER, SNAPSHOT_ORDER
from tests.histories import wire
from tests.histories.org import BEGAN, PREFIXES

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.event import Change
    from airflow_provider_sfevents.spark.changes.fields import Layout
    from tests.histories.doubt import Doubt
    from tests.histories.lake import Lake
    from tests.histories.org import Org, Told

SOURCE = ChangeSource(org_id="00D000000000001EAA", consumer="lake", topic="/data/ChangeEvents")


class Move(NamedTuple):
    """Next action of a history.

    :param kind: `batch`; `again` (an old batch is applied again); `back` (a new epoch begins so
        many events earlier); `abandon` (a batch of so many events dies and is never run again: the
        user sets the position to `repeats` events before it); `lose` (so many events leave the bus
        unread, which is recorded);
        `skip` (a user sets the position so many events forward); `resolve` (a snapshot of the whole
        entity); `records` (a snapshot of its marked records).
    :param size: number of events.
    :param silent: the batch ends because the bus is silent.
    :param dies: the job dies after writing so many tables.
    :param repeats: an event from so many events earlier is delivered again at the end of the batch.
    :param ahead: a snapshot is taken so many transactions after the delivered ones; negative:
        before.
    """

    kind: str
    size: int = 3
    silent: bool = False
    dies: int | None = None
    repeats: int = 0
    entity: str = "Account"
    ahead: int = 0


# Most often right before and after the rows, because most faults are possible there.
_DIES_AFTER = (*range(len(APPLY_ORDER)), *range(len(APPLY_ORDER) - 3, len(APPLY_ORDER)))


def _moves(
    kinds: tuple[str, ...],
    sizes: range = range(1),
    dies: Iterable[int | None] = (None,),
    repeats: tuple[int, ...] = (0,),
    ahead: range = range(1),
) -> st.SearchStrategy[Move]:
    """All moves of some kinds, one of which is drawn."""
    of_batches, of_reads = "batch" in kinds, "resolve" in kinds
    parts = itertools.product(
        sizes,
        dies,
        repeats,
        sorted(ahead, key=abs),
        sorted(PREFIXES) if of_reads else ["Account"],
        (False, True) if of_batches else (False,),
        kinds,
    )
    return st.sampled_from(
        [
            Move(kind, size, silent, dies, again, entity, ahead)
            for size, dies, again, ahead, entity, silent, kind in parts
        ]
    )


MOVES = st.lists(
    st.one_of(
        _moves(("batch",), range(1, 7)),
        _moves(("batch",), range(7), _DIES_AFTER, (0, 0, 1, 3)),
        _moves(("again",), range(4)),
        _moves(("back", "lose", "skip"), range(5)),
        # A job that dies later leaves resync entries that were right for it, and are unknown here.
        _moves(("abandon",), range(1, 7), range(APPLY_ORDER.index("resync") + 1), (0, 1, 1, 3)),
        _moves(("resolve", "resolve", "records"), ahead=range(-3, 4)),
        _moves(("resolve", "records"), ahead=range(-3, 1)),
        _moves(("resolve", "records"), dies=range(len(SNAPSHOT_ORDER)), ahead=range(2)),
    ),
    min_size=4,
    max_size=14,
)


@dataclass
class Delivery:
    """One history, delivered to one lake and to the model.

    :param cursor: index of the first event that is read; earlier events are never delivered.
    :param exact: snapshots lie between transactions that are seconds apart, so that the model is
        right at every moment.
    """

    org: Org
    lake: Lake
    doubt: Doubt
    exact: bool = True
    cursor: int = 0
    epoch: int = 1
    batch_number: int = 0
    heard: int = 0
    told: int = -1
    end: str = "earliest"
    start: str = "earliest"
    losses: tuple[str, ...] = ()
    read: dict[tuple[str, str], int] = field(default_factory=dict)
    past: list[tuple[ChangeBatch, list[Change], Layout]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self._overflown(self.cursor):  # a later begin cannot know of the overflow
            self.cursor = self._boundary(self.cursor)
        before = self.org.bus[self.cursor - 1].records if self.cursor else {}
        self.unheard = {(entity, one) for entity, records in before.items() for one in records}
        self.began = self.heard = self.cursor
        self.told = self.cursor - 1

    def move(self, move: Move) -> None:
        match move.kind:
            case "batch":
                self.batch(move)
            case "again" if self.past:
                batch, changes, layout = self.past[move.size % len(self.past)]
                assert self.lake.apply(batch, changes, self.layouts(layout))
            case "back" | "abandon" | "lose" | "skip" if (
                self.doubt.started is not None and self.start == self.end
            ):
                self.break_off(move)
            case "resolve" | "records":
                self.resolve(move)

    def batch(self, move: Move, *, size: int | None = None) -> None:
        """Fetch and apply the next events; a job that dies is run again."""
        size = move.size if size is None else size
        silent = move.silent and self.cursor + size >= self._boundary(self.cursor + size)
        events = self.org.bus[self.cursor : self.cursor + size]
        joins, lost = self.start == self.end, bool(self.losses)
        before = self.cursor - move.repeats
        # Lost events do not come again, unless a new epoch begins before them; and a batch that
        # begins with an event from before is such an epoch.
        may_repeat = joins and not self.doubt.unproven
        if (
            move.repeats
            and may_repeat
            and before >= 0
            and id(self.org.bus[before]) in self.doubt.met
        ):
            events = [*events, self.org.bus[before]]
        self.batch_number += 1
        self.cursor = min(self.cursor + size, len(self.org.bus))
        batch = self._batch(silent=silent)
        changes = self._changes(batch, events)
        layout = wire.layout_of(self.org.bus[: self.cursor])
        if move.dies is not None:
            assert not self.lake.apply(batch, changes, self.layouts(layout), writes=move.dies)
        assert self.lake.apply(batch, changes, self.layouts(layout))
        self.past.append((batch, changes, layout))
        self.end = self.start = batch.end
        self.losses = ()
        now = self.org.bus[self.cursor - 1].transaction if self.cursor else -1
        self.doubt.batch(events, silent=silent, joins=joins, lost=lost, now=now)
        self.heard = self.cursor if events else self.heard
        done = self.heard - len(self.doubt.waiting)
        self.told = max(self.told, done - 1)

    def break_off(self, move: Move) -> None:
        """Begin a new epoch at another place; the open transaction is flushed before."""
        rest = self._boundary(self.cursor) - self.cursor
        self.batch(Move("batch", rest, silent=True))
        if move.kind == "lose":
            self.cursor = min(self.cursor + move.size, len(self.org.bus))
            self.start, self.losses = "latest", ("the replay id has expired",)
            return
        upto = self._boundary(self.cursor + move.size)
        # A job that dies leaves the resync entries that it had to make, also if the events of the
        # next epoch prove that nothing is missing.
        if move.kind == "abandon" and not self.doubt.unproven:
            self._die(upto, writes=move.dies)
        forward = {"skip": move.size, "back": -move.size}.get(move.kind, -move.repeats)
        # At least one event must follow: without one, missed events cannot be noticed.
        self.cursor = max(min(self.cursor + forward, len(self.org.bus) - 1), self.began)
        self.start = f"anew-{self.epoch}"
        self.epoch, self.batch_number = self.epoch + 1, 0
        if move.kind == "abandon":
            # Rows may be ahead of the position until the events of the dead job have come again.
            self.batch(Move("batch", upto - self.cursor, silent=True))

    def _die(self, upto: int, *, writes: int | None) -> None:
        """Apply the next events in a job that dies, and leave the position where it was."""
        self.batch_number += 1
        batch = self._batch(silent=True)
        assert not self.lake.apply(
            batch,
            self._changes(batch, self.org.bus[self.cursor : upto]),
            self.layouts(wire.layout_of(self.org.bus[:upto])),
            writes=writes,
        )

    def _changes(self, batch: ChangeBatch, events: list[Told]) -> list[Change]:
        generation = len({one.epoch for one, _, _ in self.past} | {batch.epoch})
        return [
            wire.change(one, EventOrder(generation, batch.batch_number, at))
            for at, one in enumerate(events)
        ]

    def resolve(self, move: Move) -> None:
        """Take a snapshot of the org, now or later, and apply it; a job that dies is run again."""
        if not self.org.bus:
            return
        upto = self.org.bus[max(self.cursor - 1, 0)].transaction + move.ahead
        first, last = self.org.bus[0].transaction, self.org.bus[-1].transaction
        transaction = min(max(upto, first), last)
        at = max(i for i, one in enumerate(self.org.bus) if one.transaction <= transaction)
        whole = move.kind == "resolve"
        records = {
            one: wire.row(values) for one, values in self.org.bus[at].records[move.entity].items()
        }
        marked = {one for of, one in self.lake.resync if of == move.entity and one != WHOLE_ENTITY}
        asked = {one: of for one, of in records.items() if whole or one in marked}
        gone = set() if whole else marked - set(records)
        is_exact = self.exact or transaction == last
        read_at = self.org.bus[at].committed + timedelta(seconds=2 if is_exact else 0.05)
        arguments = (move.entity, asked, gone, read_at, wire.GROWN)
        if not self.exact:
            with contextlib.suppress(ConfigurationError):
                self.lake.resolve(*arguments, whole=whole)
            return
        if not self.doubt.may_read(move.entity, transaction, whole=whole):
            before = dict(self.lake.resync)
            with pytest.raises(ConfigurationError):
                self.lake.resolve(*arguments, whole=whole)
            assert self.lake.resync == before
            return
        if move.dies is not None:
            self.lake.resolve(*arguments, whole=whole, writes=move.dies)
        self.lake.resolve(*arguments, whole=whole)
        self.doubt.resolve(move.entity, {*asked, *gone}, set(asked), transaction, whole=whole)
        for one in {*asked, *gone, *([WHOLE_ENTITY] if whole else [])}:
            self.read[move.entity, one] = max(at, self.read.get((move.entity, one), -1))

    def look(self) -> None:
        """Check that exactly the model's entries are marked, and all others equal the org."""
        if not self.exact:
            return
        whole = {of for of, one in self.lake.resync if one == WHOLE_ENTITY}
        assert whole == set(self.doubt.whole), (whole, self.doubt.whole)
        for entity in self.doubt.entities - whole:
            marked = {one for of, one in self.lake.resync if of == entity}
            must = {one for of, one in self.doubt.records if of == entity}
            assert marked == must, (entity, marked, must)
            there = self.lake.present(entity)
            for one in self._everyone(entity) - marked:
                if (entity, one) in self.unheard and self.lake.state((entity, one)) is None:
                    continue
                found = wire.record(there[one]) if one in there else None
                assert found == self._truth(entity, one), one

    def look_when_all_is_told(self) -> None:
        """Check that every record without an entry equals the org, at whatever time it was read."""
        for entity in self.lake.entities:
            there = self.lake.present(entity)
            for one in {*self.org.bus[-1].records[entity], *there}:
                if not self.lake.is_marked((entity, one)):
                    found = wire.record(there[one]) if one in there else None
                    assert found == self.org.bus[-1].records[entity].get(one), one

    def look_at_the_end(self) -> None:
        """Check that the tables equal the org after everything is delivered and read."""
        for entity in self.lake.entities:
            there = {one: wire.record(of) for one, of in self.lake.present(entity).items()}
            assert there == self.org.bus[-1].records[entity]
        assert (self.lake.open_events, self.lake.kept, self.lake.resync) == ([], {}, {})

    def layouts(self, layout: Layout) -> dict[str, Layout]:
        return dict.fromkeys(PREFIXES, layout)

    def _truth(self, entity: str, one: str) -> object:
        reads = (self.read.get((entity, of), -1) for of in (one, WHOLE_ENTITY))
        at = max(self.told, *reads)
        return self.org.bus[at].records[entity].get(one)

    def _everyone(self, entity: str) -> set[str]:
        known = {one for of, one in {*self.lake.rows, *self.lake.tombstones} if of == entity}
        upto = [self.org.bus[self.told]] if self.told >= 0 else []
        return known | {one for told in upto for one in told.records[entity]}

    def _overflown(self, place: int) -> bool:
        """True if the index is inside a transaction whose overflow event came before it.

        Such a transaction does not report some of its changes.
        """
        here = self.org.bus[min(place, len(self.org.bus) - 1)].transaction
        return any(
            one.transaction == here and one.says["changeType"] == "GAP_OVERFLOW"
            for one in self.org.bus[:place]
        )

    def _boundary(self, at: int) -> int:
        """First index at or after this one at which a transaction ends."""
        bus = self.org.bus
        while 0 < at < len(bus) and bus[at - 1].transaction == bus[at].transaction:
            at += 1
        return min(at, len(bus))

    def _batch(self, *, silent: bool) -> ChangeBatch:
        return ChangeBatch(
            source=SOURCE,
            epoch=f"epoch{self.epoch}",
            batch_number=self.batch_number,
            start=self.start,
            end=f"place-{self.epoch}-{self.batch_number}",
            ended_by="idle_seconds" if silent else "max_events",
            opened_at=_staged(self.org.bus, self.cursor),
            losses=self.losses,
        )


def _staged(bus: list[Told], cursor: int) -> datetime:
    return (bus[cursor - 1].committed if cursor else BEGAN) + timedelta(seconds=1)
