"""The event bus of one org: topics, schemas, replay ids, events. No asyncio, no sockets.

Rules, all from the Subscribe RPC and event durability pages and from live logs:
1. All topics of an org share one sequence of positions; channels carry an event at its own
   position.
2. A malformed, expired or never issued start is refused, always with the same code.
3. A keepalive's replay id is a position like any other, and a valid start.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.bus import retention
from airflow_provider_sfevents.emulator.bus.listeners import Listeners
from airflow_provider_sfevents.emulator.bus.replay_log import IssuedPositions, StoredEvent, TopicLog
from airflow_provider_sfevents.emulator.bus.topic import (
    BusTopic,
    EncodedEvent,
    Journal,
    Standing,
    carriers,
    check_publishable,
    merged,
    moved_event,
    stored_copies,
)
from airflow_provider_sfevents.emulator.errors import RefusalError
from airflow_provider_sfevents.emulator.seeded_random import SeededRandom
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock
    from airflow_provider_sfevents.emulator.knobs import Knobs


class Bus:
    """Topics, schemas and events of one org. Safe to use from any thread.

    :param name: id of the org; seeds its sequence of positions.
    """

    def __init__(
        self, *, name: str, clock: EmulatorClock, knobs: Knobs, journal: Journal | None = None
    ) -> None:
        self.knobs = knobs
        self.lock = threading.RLock()
        self._clock = clock
        self.journal = journal
        self._topics: dict[str, BusTopic] = {}
        self._schemas: dict[str, str] = {}
        self._logs: dict[str, TopicLog] = {}
        self._carriers: dict[str, tuple[str, ...]] = {}
        self._left_out: dict[str, TopicLog] = {}
        self.mark_channels: Callable[[str, EncodedEvent], EncodedEvent] = lambda _topic, event: (
            event
        )
        self.current_notes: Callable[[], list[bytes]] = list
        self._issued = IssuedPositions()
        self._issued_before: list[IssuedPositions] = []
        self._forgotten: set[str] = set()
        self.numbering = 0
        self._seeded = SeededRandom(f"{knobs.seed}:{name}:duplicates")
        self._random = random.Random(f"{knobs.seed}:{name}")  # noqa: S311 - seeded
        self._position = self._random.randint(1_000_000, 20_000_000)
        self._listeners = Listeners()
        self._next_purge = 0.0
        self._newest_at = 0.0
        self._notes: list[bytes] = []

    # --- what exists ------------------------------------------------------------------------------

    @property
    def topics(self) -> tuple[BusTopic, ...]:
        with self.lock:
            return tuple(self._topics.values())

    def topic(self, name: str) -> BusTopic | None:
        with self.lock:
            return self._topics.get(name)

    def schema(self, schema_id: str) -> str | None:
        """JSON text of a schema that was ever in use in this org."""
        with self.lock:
            return self._schemas.get(schema_id)

    def define(self, topic: BusTopic) -> None:
        """Add a topic or replace its definition; its events stay."""
        with self.lock:
            if self.journal:
                self.journal.topic(topic)
            self.restore_topic(topic)

    def add_schema(self, schema_id: str, schema_json: str) -> None:
        with self.lock:
            if schema_id not in self._schemas:
                if self.journal:
                    self.journal.schema(schema_id, schema_json)
                self._schemas[schema_id] = schema_json

    def forget_schema(self, schema_id: str) -> None:
        """Make GetSchema answer that the schema is unknown; the emulator itself still uses it."""
        with self.lock:
            self._forgotten.add(schema_id)

    def has_forgotten(self, schema_id: str) -> bool:
        with self.lock:
            return schema_id in self._forgotten

    # --- publishing -------------------------------------------------------------------------------

    def append(self, topic: str, events: Iterable[EncodedEvent]) -> list[bytes]:
        """Publish events in this order and return their replay ids.

        With the knob `duplicate_rate` some events are published again, under another replay id.

        :raises EmulatorError: the topic is not defined, or is a channel.
        """
        with self.lock:
            check_publishable(topic, self._topics)
            several = [(topic, event) for event in events]
            if not self.knobs.duplicate_rate:
                return self.commit(several)
            twice = self._seeded.doubled(several, self.knobs.duplicate_rate)
            replay_ids = self.commit(twice)
            return [
                one for at, one in enumerate(replay_ids) if not at or twice[at] is not twice[at - 1]
            ]

    def commit(
        self,
        events: Sequence[tuple[str, EncodedEvent]],
        note: bytes = b"",
        topics: Sequence[BusTopic] = (),
    ) -> list[bytes]:
        """Publish events of several topics, all or none, and return their replay ids.

        :param note: bytes for the publisher, kept in the journal with the events; see `take_notes`.
        :param topics: to define with the note, as `define` does.
        :raises EmulatorError: a topic is not defined or is a channel, or the disk is full.
        """
        with self.lock:
            known = self._topics | {one.name: one for one in topics} if topics else self._topics
            for topic, _ in events:
                check_publishable(topic, known)
            self._purge()
            at, size = self._at(), self.knobs.replay_id_bytes
            stored = [
                copy
                for topic, event in events
                for copy in stored_copies(
                    topic, self.mark_channels(topic, event), self._next_position(), at, size
                )
            ]
            if self.journal:
                self.journal.events(stored, note, topics)
            for made in topics:
                self.restore_topic(made)
            for one in stored:
                self.restore_event(one)
            reached = {carrier for topic, _ in events for carrier in self._carriers[topic]}
        self.wake(reached)
        return [self.replay_id(one.position) for one in stored if not one.channel]

    def take_notes(self) -> list[bytes]:
        """Return the notes read from the journal, oldest first, and forget them."""
        with self.lock:
            notes, self._notes = self._notes, []
            return notes

    def renumber(self, position: int, *, old_valid: bool) -> None:
        """Give all retained events new positions from this one on, as when an org moves.

        :param old_valid: earlier replay ids stay valid and refer to the same numbers.
        """
        with self.lock:
            self._purge()
            past = [
                event
                for name, log in self._logs.items()
                for event in log.last(len(log))
                if event.channel or self._topics[name].kind != "channel"
            ]
            past += [event for log in self._left_out.values() for event in log.last(len(log))]
            # An event precedes the copies that channels have of it.
            past.sort(key=lambda one: (one.position, one.channel))
            before, self._position = self._position, position
            positions = {old: self._next_position() for old in sorted({e.position for e in past})}
            self._position = before
            size = self.knobs.replay_id_bytes
            moved = [moved_event(event, positions[event.position], size) for event in past]
            if self.journal:
                self.journal.renumbered(position, moved, old_valid=old_valid)
            self.restore_numbering(position, old_valid=old_valid)
            for event in moved:
                self.restore_event(event)
        self.wake()

    def _next_position(self) -> int:
        # Replay ids of live orgs mostly grow by one, sometimes by a few.
        gap = (
            1 if self._random.random() < 0.6 else self._random.randint(1, self.knobs.replay_id_gap)
        )
        self._position += gap
        return self._position

    # --- subscribing ------------------------------------------------------------------------------

    def start(self, preset: int, replay_id: bytes, topic: str = "") -> int:
        """Position after which a subscription to a topic starts.

        :raises RefusalError: the replay id is malformed, expired or was never issued.
        """
        with self.lock:
            self._purge()
            if preset == pb.EARLIEST:
                return 0
            if preset == pb.LATEST:
                return self._position
            if not replay_id:
                raise RefusalError("subscription.fetch.replayid.validation.failed")
            position = salesforce_ids.position_of(replay_id)
            known = (self._issued, *self._issued_before)
            since = self._clock.timestamp() - retention.kept_seconds(
                self._topics.get(topic), self.knobs
            )
            if position is None or not any(issued.holds(position, since) for issued in known):
                raise RefusalError("subscription.fetch.replayid.corrupted")
            return position

    def read(self, topic: str, after: int, limit: int) -> list[StoredEvent]:
        """At most `limit` retained events of a topic after a position, oldest first."""
        with self.lock:
            self._purge()
            log = self._logs.get(topic)
            return log.after(after, limit) if log else []

    def has_after(self, topic: str, after: int) -> bool:
        """True if `read` would return an event."""
        with self.lock:
            self._purge()
            log = self._logs.get(topic)
            return bool(log and log.has_after(after))

    def before(self, topic: str, position: int, events: int) -> int:
        """Position `events` events of the topic before this one."""
        with self.lock:
            log = self._logs.get(topic)
            return log.before(position, events) if log else position

    def retained(self, topic: str, count: int | None = None) -> list[StoredEvent]:
        """Last events of a topic, oldest first; all retained ones if no count is given."""
        with self.lock:
            self._purge()
            log = self._logs.get(topic)
            return log.last(len(log) if count is None else count) if log else []

    def keepalive_position(self, topic: str, after: int) -> int | None:
        """Position for a keepalive of a stream that has received everything up to `after`.

        None if an event was published since, which a client that started there would miss.
        """
        with self.lock:
            if self.has_after(topic, after):
                return None
            newest = self._issued.newest
            if self.knobs.keepalive_drift or newest is None:
                newest, at = self._next_position(), self._at()
                if self.journal:
                    self.journal.position(newest, at)
                self._issued.add(newest, at)
            return newest

    def replay_id(self, position: int) -> bytes:
        return salesforce_ids.replay_id(position, self.knobs.replay_id_bytes)

    @property
    def position(self) -> int:
        """The newest position."""
        with self.lock:
            return self._position

    # --- waking streams ---------------------------------------------------------------------------

    def listen(self, listener: Callable[[], None], topic: str = "") -> Callable[[], None]:
        """Call a listener, from any thread, on news of a topic or of any; return its end."""
        return self._listeners.add(listener, topic)

    def wake(self, topics: Iterable[str] | None = None) -> None:
        """Call the listeners of these topics; all listeners if no topics are given."""
        self._listeners.wake(topics)

    # --- its journal, and reading it back ---------------------------------------------------------

    def standing(self) -> Standing:
        """Everything that does not expire. The caller holds the lock."""
        topics, schemas = tuple(self._topics.values()), tuple(self._schemas.items())
        return topics, schemas, self.current_notes(), self._position

    def kept_since(self) -> float:
        """Time of the oldest event that may still be retained."""
        return self._clock.timestamp() - retention.longest_seconds(self.knobs)

    def sweep(self) -> None:
        """Remove expired events, also from the journal."""
        with self.lock:
            self._next_purge = 0.0
            self._purge()

    def restore_head(self, position: int) -> None:
        """Start a journal file, whose records repeat everything that does not expire."""
        self._notes.clear()
        self._position = position

    def restore_passed(self, position: int) -> None:
        """Continue after an expired event."""
        self._position = max(self._position, position)

    def restore_topic(self, topic: BusTopic) -> None:
        if self._topics.get(topic.name) == topic:
            return
        self._topics[topic.name] = topic
        if topic.removed:
            del self._topics[topic.name]
            self._logs.pop(topic.name, None)
            self._left_out.pop(topic.name, None)
        elif topic.kind == "channel":
            self._logs[topic.name] = self._merged(topic.name, topic.members)
        else:
            self._logs.setdefault(topic.name, TopicLog())
        self._carriers = carriers(self._topics)

    def restore_schema(self, schema_id: str, schema_json: str) -> None:
        self._schemas[schema_id] = schema_json

    def restore_note(self, note: bytes) -> None:
        self._notes.append(note)

    def restore_event(self, event: StoredEvent) -> None:
        if event.channel:
            self._carry_copy(event)
            return
        for carrier in self._carriers[event.topic]:
            self._logs[carrier].append(event)
        self.restore_position(event.position, event.published_at)

    def _carry_copy(self, copy: StoredEvent) -> None:
        """Add a channel's copy in place of the event; an empty copy removes the event."""
        log = self._logs[copy.channel]
        if copy.wire:
            log.replace(copy)
        else:
            log.remove(copy.position)
            self._left_out.setdefault(copy.channel, TopicLog()).append(copy)

    def restore_position(self, position: int, at: float) -> None:
        # A comparison is faster than `max`, and a start restores a day of events here.
        if position > self._position:
            self._position = position
        if at > self._newest_at:
            self._newest_at = at
        self._issued.add(position, at)

    def restore_numbering(self, position: int, *, old_valid: bool) -> None:
        """Start a new numbering."""
        self._issued_before = [self._issued, *self._issued_before] if old_valid else []
        self._issued = IssuedPositions()
        self._logs = {name: TopicLog() for name in self._logs}
        self._left_out.clear()
        self._position = position
        self._next_purge = 0.0
        self.numbering += 1

    def _merged(self, name: str, members: Sequence[str]) -> TopicLog:
        """Past events of a channel, in bus order."""
        past = [event for member in members for event in self.retained(member)]
        own = [event for event in self.retained(name) if event.channel]
        return merged(past, own, self._left_out.get(name))

    def _at(self) -> float:
        """Current time, not before the newest event, which an advanced clock may have dated."""
        self._newest_at = max(self._newest_at, self._clock.timestamp())
        return self._newest_at

    def _purge(self) -> None:
        now = self._clock.timestamp()
        if now < self._next_purge:
            return  # called on each access; the topics are scanned only when something is due
        issued = (self._issued, *self._issued_before)
        logs = [*self._logs.items(), *self._left_out.items()]
        by_topic = [(self._topics.get(name), log) for name, log in logs]
        self._next_purge = retention.purge(issued, by_topic, self.knobs, now)
        self._issued_before = [one for one in self._issued_before if one.newest is not None]
        if self.journal:
            self.journal.sweep(now, now - retention.longest_seconds(self.knobs))
