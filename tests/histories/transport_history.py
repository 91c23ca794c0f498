"""One history: events are published, both APIs are read with faults, and their tables compared."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from tests.histories.transport_plan import WHOLE
from tests.histories.transport_readers import TopicReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_sfevents.batches.event_source import TopicClient
    from airflow_provider_sfevents.emulator import Emulator
    from tests.histories.transport_plan import Order, Plan

MOST_BATCHES = 40
"""Batches without a fault in which all is read."""

FIELDS = {
    "Number__c": "Text",
    "Amount__c": "Double",
    "Count__c": "Integer",
    "At__c": "DateTime",
    "On__c": "Date",
    "Is__c": "Checkbox",
    "Story__c": "LongTextArea",
}
LINES = tuple(f"line {number} of a long story" for number in range(12))


@dataclass
class Figures:
    """Sums over histories.

    :ivar faults: by API and kind.
    """

    histories: int = 0
    events: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    repeats: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)


class TransportHistory:
    """One history on a bus that runs no other one meanwhile."""

    def __init__(self, plan: Plan, bus: Emulator, clients: Mapping[str, TopicClient]) -> None:
        self._plan = plan
        self._bus = bus
        self._pick = random.Random(plan.seed)  # noqa: S311 - repeatable, guards nothing
        self._published: set[str] = set()
        self._records: list[str] = []
        name = f"H{plan.seed}"
        self._entity = f"{name}__c" if plan.changes else ""
        if plan.changes:
            self._topic = bus.define_object(self._entity, FIELDS)
        else:
            self._topic = bus.define_event(f"{name}__e", FIELDS)
        self._readers = {
            api: TopicReader(client=client, topic=self._topic, entity=self._entity)
            for api, client in clients.items()
        }

    async def run(self, figures: Figures) -> None:
        """Run all rounds, read the rest without faults, and compare."""
        for one in self._plan.rounds:
            if one.hours:
                await self._drain()
                for reader in self._readers.values():
                    reader.silence()  # as a run without events does; a loss spoils open ones
                self._bus.clock.advance(hours=one.hours)
            self._publish(one.events)
            for api, reader in self._readers.items():
                self._order(one.faults.get(api), api, figures)
                await reader.batch(one.max_events, dies=api in one.dies)
                self._bus.clear_faults()
        await self._drain()
        self._compare()
        figures.histories += 1
        figures.events += len(self._published)
        for api, reader in self._readers.items():
            figures.repeats[api] += reader.repeats
            figures.failed[api] += len(reader.failed)

    def _order(self, order: Order | None, api: str, figures: Figures) -> None:
        if order is None:
            return
        getattr(self._bus, order.verb)(**order.arguments)
        figures.faults[f"{api}: {order.name}"] += 1

    def _publish(self, events: int) -> None:
        for _ in range(events):
            if self._entity:
                self._change()
            else:
                self._bus.publish(self._topic, [self._fields()])
        self._published |= {one["replay_id"] for one in self._bus.events(self._topic)}

    def _change(self) -> None:
        """Change the org: create, update, empty, delete or restore a record."""
        bus, pick = self._bus, self._pick
        what = pick.choice(("create", "update", "update", "empty", "delete", "undelete", "both"))
        there = [one for one in self._records if bus.record(one) is not None]
        if what == "create" or not self._records or (not there and what != "undelete"):
            self._records.append(bus.create(self._entity, self._fields()))
        elif what == "undelete":
            gone = [one for one in self._records if one not in there]
            if not gone:
                return
            bus.undelete(pick.choice(gone))
        elif what == "delete":
            bus.delete(pick.choice(there))
        elif what == "both" and len(there) > 1:
            bus.update(there[:2], {"Number__c": f"both {pick.randrange(1000)}"})
        else:
            some = {"Number__c": None} if what == "empty" else self._fields()
            bus.update(pick.choice(there), some)

    def _fields(self) -> dict[str, Any]:
        pick = self._pick
        return {
            "Number__c": f"n {pick.randrange(10**6)} \u00e9",
            "Amount__c": pick.choice((None, 0.1, 1e15, -2.5)),
            "Count__c": pick.choice((None, 0, 2**31 - 1)),
            "At__c": pick.choice((None, datetime(2026, 3, 29, 1, 2, 3, 456_000, tzinfo=UTC))),
            "On__c": pick.choice((None, date(1969, 12, 31))),
            "Is__c": pick.random() < 0.5,
            "Story__c": pick.choice((None, "\n".join(pick.sample(LINES, 11)))),
        }

    async def _drain(self) -> None:
        """Read both APIs without faults until each has all events."""
        for reader in self._readers.values():
            for _ in range(MOST_BATCHES):
                if len(reader.rows) >= len(self._published):
                    break
                await reader.batch(WHOLE)

    def _compare(self) -> None:
        pubsub, streaming = self._readers["pubsub"], self._readers["streaming"]
        where = f"seed {self._plan.seed}, {self._plan}"
        for api, reader in self._readers.items():
            found, published = len(reader.rows), len(self._published)
            assert found == published, f"{api}: {found} of {published}; {reader.failed}; {where}"
            reader.silence()
        assert streaming.rows == pubsub.rows, where
        if self._entity:
            assert self._records_of(streaming) == self._records_of(pubsub), where
            marked = {key for key in streaming.lake.resync if key[0] == self._entity}
            there = {one["Id"] for one in self._bus.records(self._entity, shape="event")}
            assert marked or streaming.lake.present(self._entity).keys() == there, where

    def _records_of(self, reader: TopicReader) -> Any:
        """Records, and which of them may differ from the org until a snapshot."""
        return reader.lake.present(self._entity), sorted(reader.lake.resync)
