"""One org's event bus: topics, schemas, one sequence of replay ids, 72 hours of events. No asyncio, no sockets.

Rules, all from the Subscribe RPC and event durability pages and from live logs:
1. one sequence of places for all topics of the org; an event has the same one on its topic and on every channel;
2. a start is refused, always with the same code, when it is malformed, aged out, or was never given out;
3. a keepalive's replay id is a place like any other and may be a start.
"""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator import ids, storing
from airflow_provider_sfevents.emulator.chance import Chance
from airflow_provider_sfevents.emulator.errors import EmulatorError, Refusal
from airflow_provider_sfevents.emulator.listeners import Listeners
from airflow_provider_sfevents.emulator.replay_log import IssuedPositions, StoredEvent, TopicLog
from airflow_provider_sfevents.emulator.topics import Encoded, Journal, Standing, Topic
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from airflow_provider_sfevents.emulator.clock import Clock
    from airflow_provider_sfevents.emulator.knobs import Knobs

__all__ = ["Bus", "Encoded", "Topic"]

_HOUR = 3600.0


class Bus:
    """Holds everything of one org that is published or subscribed to. Safe to use from any thread.

    :param name: the org's id; makes two orgs' sequences differ.
    """

    def __init__(
        self, *, name: str, clock: Clock, knobs: Knobs, journal: Journal | None = None
    ) -> None:
        self.knobs = knobs
        self.lock = threading.RLock()
        self._clock = clock
        self.journal = journal
        self._topics: dict[str, Topic] = {}
        self._schemas: dict[str, str] = {}
        self._logs: dict[str, TopicLog] = {}
        self._carriers: dict[str, tuple[str, ...]] = {}
        self._left_out: dict[str, TopicLog] = {}
        self.dress: Callable[[str, Encoded], Encoded] = lambda _topic, event: event
        self.notes_now: Callable[[], list[bytes]] = list
        self._issued = IssuedPositions()
        self._issued_before: list[IssuedPositions] = []
        self._forgotten: set[str] = set()
        self.numbering = 0
        self._chance = Chance(f"{knobs.seed}:{name}:duplicates")
        self._random = random.Random(f"{knobs.seed}:{name}")  # noqa: S311 - repeatable, guards nothing
        self._position = self._random.randint(1_000_000, 20_000_000)
        self._listeners = Listeners()
        self._next_purge = 0.0
        self._newest_at = 0.0
        self._notes: list[bytes] = []

    # --- what exists -------------------------------------------------------------------------------------------------

    @property
    def topics(self) -> tuple[Topic, ...]:
        with self.lock:
            return tuple(self._topics.values())

    def topic(self, name: str) -> Topic | None:
        with self.lock:
            return self._topics.get(name)

    def schema(self, schema_id: str) -> str | None:
        """JSON text of a schema that was ever in use here."""
        with self.lock:
            return self._schemas.get(schema_id)

    def define(self, topic: Topic) -> None:
        """Add a topic, or put another version in its place; what it carried so far stays."""
        with self.lock:
            self.restore_topic(topic)
            if self.journal:
                self.journal.topic(topic)

    def add_schema(self, schema_id: str, schema_json: str) -> None:
        with self.lock:
            if schema_id not in self._schemas:
                self._schemas[schema_id] = schema_json
                if self.journal:
                    self.journal.schema(schema_id, schema_json)

    def forget_schema(self, schema_id: str) -> None:
        """Answer as if nobody had ever known this schema; what is published and read here still does."""
        with self.lock:
            self._forgotten.add(schema_id)

    def has_forgotten(self, schema_id: str) -> bool:
        with self.lock:
            return schema_id in self._forgotten

    # --- publishing --------------------------------------------------------------------------------------------------

    def append(self, topic: str, events: Iterable[Encoded]) -> list[bytes]:
        """Put events on the bus, in this order; their replay ids.

        The knob `duplicate_rate` lets some of them follow once more, under another replay id.

        :raises EmulatorError: for a topic nobody defined, or a channel.
        """
        with self.lock:
            self._check_target(topic)
            several = [(topic, event) for event in events]
            if not self.knobs.duplicate_rate:
                return self.commit(several)
            twice = self._chance.doubled(several, self.knobs.duplicate_rate)
            replay_ids = self.commit(twice)
            return [
                one for at, one in enumerate(replay_ids) if not at or twice[at] is not twice[at - 1]
            ]

    def commit(self, events: Sequence[tuple[str, Encoded]], note: bytes = b"") -> list[bytes]:
        """Put events of several topics on the bus, in this order and all or none; their replay ids.

        :param note: kept in the log with them, for whoever publishes; see `take_notes`.
        :raises EmulatorError: for a topic nobody defined, or a channel; when the folder's disk is full.
        """
        with self.lock:
            for topic, _ in events:
                self._check_target(topic)
            self._purge()
            at, size = self._at(), self.knobs.replay_id_bytes
            stored = [
                copy
                for topic, event in events
                for copy in storing.stored(
                    topic, self.dress(topic, event), self._next_position(), at, size
                )
            ]
            if self.journal:
                self.journal.events(stored, note)
            for one in stored:
                self.restore_event(one)
            reached = {carrier for topic, _ in events for carrier in self._carriers[topic]}
        self.wake(reached)
        return [self.replay_id(one.position) for one in stored if not one.channel]

    def take_notes(self) -> list[bytes]:
        """Hand over the notes read from the log, oldest first; the bus keeps none."""
        with self.lock:
            notes, self._notes = self._notes, []
            return notes

    def _check_target(self, topic: str) -> None:
        target = self._topics.get(topic)
        if target is None or target.kind == "channel":
            what = "is a channel; publish to one of its members" if target else "was never defined"
            raise EmulatorError(
                f"topic {topic!r} {what}; defined: {', '.join(self._topics) or 'none'}"
            )

    def renumber(self, position: int, *, old_valid: bool) -> None:
        """Give all retained events new places, from this one on, as when an org moves.

        :param old_valid: whether replay ids of before are still taken, for the places they name now.
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
            self.restore_numbering(position, old_valid=old_valid)
            # An event comes before the copies that channels have of it.
            past.sort(key=lambda one: (one.position, one.channel))
            places = {old: self._next_position() for old in sorted({e.position for e in past})}
            size = self.knobs.replay_id_bytes
            moved = [storing.moved(event, places[event.position], size) for event in past]
            for event in moved:
                self.restore_event(event)
            if self.journal:
                self.journal.renumbered(position, moved, old_valid=old_valid)
        self.wake()

    def _next_position(self) -> int:
        # Live ids step by one more often than not, and by a few otherwise.
        gap = (
            1 if self._random.random() < 0.6 else self._random.randint(1, self.knobs.replay_id_gap)
        )
        self._position += gap
        return self._position

    # --- subscribing -------------------------------------------------------------------------------------------------

    def start(self, preset: int, replay_id: bytes) -> int:
        """Place a subscription begins after.

        :raises Refusal: when there is none.
        """
        with self.lock:
            self._purge()
            if preset == pb.EARLIEST:
                return 0
            if preset == pb.LATEST:
                return self._position
            if not replay_id:
                raise Refusal("subscription.fetch.replayid.validation.failed")
            position = ids.position_of(replay_id)
            known = (self._issued, *self._issued_before)
            if position is None or not any(issued.holds(position) for issued in known):
                raise Refusal("subscription.fetch.replayid.corrupted")
            return position

    def read(self, topic: str, after: int, limit: int) -> list[StoredEvent]:
        """At most `limit` retained events of a topic strictly after a place, oldest first."""
        with self.lock:
            self._purge()
            log = self._logs.get(topic)
            return log.after(after, limit) if log else []

    def has_after(self, topic: str, after: int) -> bool:
        """Whether `read` would find something."""
        with self.lock:
            self._purge()
            log = self._logs.get(topic)
            return bool(log and log.has_after(after))

    def before(self, topic: str, position: int, events: int) -> int:
        """Place that lies so many of the topic's events before this one."""
        with self.lock:
            log = self._logs.get(topic)
            return log.before(position, events) if log else position

    def retained(self, topic: str, count: int | None = None) -> list[StoredEvent]:
        """Last events of a topic, oldest first; all of them without a count."""
        with self.lock:
            self._purge()
            log = self._logs.get(topic)
            return log.last(len(log) if count is None else count) if log else []

    def keepalive_position(self, topic: str, after: int) -> int | None:
        """Name a place at the end of the bus for a stream that has had everything up to `after`.

        None when an event has come meanwhile: who started after the end of the bus would never see it.
        """
        with self.lock:
            if self.has_after(topic, after):
                return None
            newest = self._issued.newest
            if self.knobs.keepalive_drift or newest is None:
                newest, at = self._next_position(), self._at()
                self._issued.add(newest, at)
                if self.journal:
                    self.journal.position(newest, at)
            return newest

    def replay_id(self, position: int) -> bytes:
        return ids.replay_id(position, self.knobs.replay_id_bytes)

    @property
    def position(self) -> int:
        """The newest place."""
        with self.lock:
            return self._position

    # --- waking streams ----------------------------------------------------------------------------------------------

    def listen(self, listener: Callable[[], None], topic: str = "") -> Callable[[], None]:
        """Call this, from any thread, when there may be something new, on this topic or on any; returns what ends it."""
        return self._listeners.add(listener, topic)

    def wake(self, topics: Iterable[str] | None = None) -> None:
        """Call who listens to these topics; everybody where none are named."""
        self._listeners.wake(topics)

    # --- its journal, and reading it back ----------------------------------------------------------------------------

    def standing(self) -> Standing:
        """What does not age. The caller locks."""
        topics, schemas = tuple(self._topics.values()), tuple(self._schemas.items())
        return topics, schemas, self.notes_now(), self._position

    def kept_since(self) -> float:
        """When the oldest event was published that may still be here."""
        knobs = self.knobs
        return self._clock.timestamp() - (knobs.retention_hours + knobs.purge_late_hours) * _HOUR

    def sweep(self) -> None:
        """Forget what has expired, on disk too."""
        with self.lock:
            self._next_purge = 0.0
            self._purge()

    def restore_head(self, position: int) -> None:
        """Begin with what does not age; it is all told anew."""
        self._notes.clear()
        self._position = position

    def restore_passed(self, position: int) -> None:
        """Go on after an event that has expired."""
        self._position = max(self._position, position)

    def restore_topic(self, topic: Topic) -> None:
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
        self._carriers = {
            name: (name, *(other.name for other in self._topics.values() if name in other.members))
            for name in self._topics
        }

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
        """Let a channel carry a copy in place of the event, or, where the copy is empty, leave the event out."""
        log = self._logs.get(copy.channel)
        if log is None:
            return  # settings that were written just before a kill, without a channel yet
        if copy.wire:
            log.replace(copy)
        else:
            log.remove(copy.position)
            self._left_out.setdefault(copy.channel, TopicLog()).append(copy)

    def restore_position(self, position: int, at: float) -> None:
        # Compared rather than `max`: a day of events comes this way when an emulator starts.
        if position > self._position:
            self._position = position
        if at > self._newest_at:
            self._newest_at = at
        self._issued.add(position, at)

    def restore_numbering(self, position: int, *, old_valid: bool) -> None:
        """Begin another sequence of places."""
        self._issued_before = [self._issued, *self._issued_before] if old_valid else []
        self._issued = IssuedPositions()
        self._logs = {name: TopicLog() for name in self._logs}
        self._left_out.clear()
        self._position = position
        self._next_purge = 0.0
        self.numbering += 1

    def _merged(self, name: str, members: Sequence[str]) -> TopicLog:
        """Gather what a channel carries of the past: ids are places on the bus, whoever looks."""
        log = TopicLog()
        past = [event for member in members for event in self.retained(member)]
        own = {event.position: event for event in self.retained(name) if event.channel}
        without = self._left_out.get(name) or TopicLog()
        for event in sorted(past, key=lambda event: event.position):
            if not without.holds(event.position):
                log.append(own.get(event.position, event))
        return log

    def _at(self) -> float:
        """What time it is, and no earlier than what is here: a clock that was moved stands where it was after a restart."""
        self._newest_at = max(self._newest_at, self._clock.timestamp())
        return self._newest_at

    def _purge(self) -> None:
        now = self._clock.timestamp()
        if now < self._next_purge:
            return  # each look at the bus comes here; a thousand topics are looked through when something is due
        kept = self.knobs.retention_hours * _HOUR
        late = kept + self.knobs.purge_late_hours * _HOUR
        aging: list[tuple[IssuedPositions | TopicLog, float]]
        aging = [(issued, kept) for issued in (self._issued, *self._issued_before)]
        aging += [(log, late) for log in (*self._logs.values(), *self._left_out.values())]
        for one, age in aging:
            one.drop_before(now - age)
        self._issued_before = [one for one in self._issued_before if one.newest is not None]
        due = [one.oldest + age for one, age in aging if one.oldest is not None]
        self._next_purge = min(due, default=now + kept)
        if self.journal:
            self.journal.sweep(now, now - late)
