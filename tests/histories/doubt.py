"""The model: records and entities that must be marked after the delivered events.

It takes one event after the other. It knows nothing of tables, orders, repeated batches or values;
only the content of an event and its transaction. It is right if every snapshot lies between two
transactions that are seconds apart.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.histories.org import NO_RECORD

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.histories.org import Told

Key = tuple[str, str]
_KNOWN = {"CREATE", "UPDATE", "DELETE", "UNDELETE", "GAP_OVERFLOW"} | {
    f"GAP_{kind}" for kind in ("CREATE", "UPDATE", "DELETE", "UNDELETE")
}


@dataclass
class Doubt:
    """Entries that must be marked, with the transaction of the latest cause.

    :param starts_empty: entities are assumed to be empty before their first event.
    """

    starts_empty: bool
    entities: set[str] = field(default_factory=set)
    whole: dict[str, int] = field(default_factory=dict)
    records: dict[Key, int] = field(default_factory=dict)
    present: set[Key] = field(default_factory=set)
    touched: dict[Key, int] = field(default_factory=dict)
    read: dict[Key, int] = field(default_factory=dict)
    entity_read: dict[str, int] = field(default_factory=dict)
    kept: dict[Key, list[Told]] = field(default_factory=dict)
    met: set[int] = field(default_factory=set)
    latest: int = -1
    waiting: list[Told] = field(default_factory=list)
    broken_until: int = -1
    started: int | None = None
    lossless: bool = True
    unproven: bool = False

    def batch(self, events: list[Told], *, silent: bool, joins: bool, lost: bool, now: int) -> None:
        """Take a batch.

        :param now: transaction after which the batch was staged; counts for a batch without events.
        """
        first = events[0].transaction if events else now
        self.started = first if self.started is None else self.started
        self._open(events, first, joins=joins, lost=lost)
        stream = self.waiting + [one for one in events if id(one) not in self.met]
        stream = list({id(one): one for one in stream}.values())
        self.met |= {id(one) for one in events}
        whole, self.waiting = _cut(stream, silent=silent)
        for one in whole:
            self._meet(one)
        for number in sorted({one.transaction for one in whole}):
            own = [one for one in whole if one.transaction == number]
            own.sort(key=lambda one: one.says["changeType"] == "GAP_OVERFLOW")
            for one in own:
                self._take(one, suspect=number <= self.broken_until)

    def may_read(self, entity: str, transaction: int, *, whole: bool) -> bool:
        """True if a snapshot right after that transaction is accepted for the entity."""
        if self.started is None or transaction < self.started:
            return False
        if entity not in self.entities:
            return whole
        if transaction < self.entity_read.get(entity, -1):
            return False
        cause = self.whole.get(entity)
        return cause is None or (whole and transaction >= cause)

    def resolve(
        self, entity: str, ids: Collection[str], there: Collection[str], at: int, *, whole: bool
    ) -> None:
        """Take a snapshot that is accepted."""
        asked = set(ids)
        if whole:
            keys = {*self.present, *self.touched, *self.records, *self.kept}
            asked |= {one for of, one in keys if of == entity} | set(there)
        self.entities.add(entity)
        is_marked = entity in self.whole
        for one in asked:
            self._resolve((entity, one), one in there, at, under_whole=is_marked)
        if whole:
            self.whole.pop(entity, None)
            self.entity_read[entity] = at

    def _resolve(self, key: Key, there: bool, at: int, *, under_whole: bool) -> None:
        if self.records.get(key, -1) > at:
            return
        if self.touched.get(key, -1) > at and key not in self.records:
            if under_whole:  # deleted since then
                self._again(key, at)
            return
        self.records.pop(key, None)
        self.read[key] = self.touched[key] = at
        (self.present.add if there else self.present.discard)(key)
        self._again(key, at)

    def _again(self, key: Key, at: int) -> None:
        waiting = [one for one in self.kept.pop(key, []) if one.transaction > at]
        for one in waiting:
            self._apply(one, key, suspect=False)
        if key in self.records:
            self.kept[key] = waiting
            self.touched[key] = at

    def _open(self, events: list[Told], first: int, *, joins: bool, lost: bool) -> None:
        if not joins:
            self.broken_until = self.latest
        in_doubt = self.unproven or not joins
        self.unproven = in_doubt and not events and not lost
        if lost or (in_doubt and events and id(events[0]) not in self.met):
            self._lose(first)

    def _lose(self, at: int) -> None:
        self.lossless = False
        self.started = max(self.started or 0, at)
        for entity in self.entities:
            self.whole[entity] = max(self.whole.get(entity, -1), at)

    def _meet(self, one: Told) -> None:
        entity = one.says["entityName"]
        if entity not in self.entities:
            self.entities.add(entity)
            if not (self.starts_empty and self.lossless):
                self.whole[entity] = one.transaction
        self.latest = max(self.latest, one.transaction)

    def _take(self, one: Told, *, suspect: bool) -> None:
        says, entity = one.says, one.says["entityName"]
        ids, kind = says["recordIds"], says["changeType"]
        if NO_RECORD in ids or any(text.endswith("*") for text in ids):
            self._take_wide(one, entity, told=kind == "UPDATE" and bool(says["changedFields"]))
            return
        for record_id in ids:
            key = (entity, record_id)
            if one.transaction <= self.read.get(key, self.entity_read.get(entity, -1)):
                continue
            is_late = suspect and one.transaction < self.touched.get(key, -1)
            if (
                says["broken"]
                or kind not in _KNOWN
                or (kind in _KNOWN - {"GAP_DELETE"} and kind[:4] == "GAP_")
            ):
                self._doubt(key, one)
            elif kind.endswith("DELETE") and not kind.endswith("UNDELETE"):
                if is_late:
                    self._doubt(key, one)
                    continue
                self.records.pop(key, None)
                self.kept.pop(key, None)
                self.present.discard(key)
                self._touch(key, one)
            elif entity in self.whole or key in self.records:
                self.kept.setdefault(key, []).append(one)
            else:
                self._apply(one, key, suspect=is_late)

    def _take_wide(self, one: Told, entity: str, *, told: bool) -> None:
        if one.transaction <= self.entity_read.get(entity, -1):
            return
        if not told:
            self.whole[entity] = max(self.whole.get(entity, -1), one.transaction)

    def _apply(self, one: Told, key: Key, *, suspect: bool) -> None:
        if suspect:
            self._doubt(key, one)
        elif key in self.records:
            return
        elif one.says["changeType"] in {"CREATE", "UNDELETE"}:
            self.present.add(key)
            self._touch(key, one)
        elif key not in self.present:
            self._doubt(key, one)
        else:
            self._touch(key, one)
            if one.spoiled:
                self._doubt(key, one)

    def _touch(self, key: Key, one: Told) -> None:
        self.touched[key] = max(self.touched.get(key, -1), one.transaction)
        if key not in self.read:
            self.read[key] = self.entity_read.get(key[0], -1)

    def _doubt(self, key: Key, one: Told) -> None:
        latest = max(one.transaction, self.touched.get(key, -1))
        self.records[key] = max(self.records.get(key, -1), latest)


def _cut(stream: list[Told], *, silent: bool) -> tuple[list[Told], list[Told]]:
    """Split into complete transactions and the last one, which may still be open."""
    if silent or not stream:
        return stream, []
    last = stream[-1].transaction
    at = max((i + 1 for i, one in enumerate(stream) if one.transaction != last), default=0)
    return stream[:at], stream[at:]
