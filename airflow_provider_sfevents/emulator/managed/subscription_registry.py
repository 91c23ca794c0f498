"""Registry of an org's managed subscriptions: configs, propagation, committed replay ids, slots."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.emulator import salesforce_ids
from airflow_provider_sfevents.emulator.errors import EmulatorError, RefusalError
from airflow_provider_sfevents.emulator.managed import subscription_rules
from airflow_provider_sfevents.emulator.managed.subscription_config import (
    ManagedConfig,
    ManagedRefusedError,
)
from airflow_provider_sfevents.emulator.state_folder import replace_file
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.emulator.bus.event_bus import Bus
    from airflow_provider_sfevents.emulator.emulator_clock import EmulatorClock

VERSION = "66.0"
_PRESETS = {"LATEST": pb.LATEST, "EARLIEST": pb.EARLIEST}


@dataclass(slots=True)
class _Entry:
    """A config in setup, and its last state known to the service.

    :param now: config in setup; None once deleted.
    :param before: config that the service uses until the change has propagated; None for a new one.
    :param spread_at: time, in seconds since the epoch, when the service knows the change; 0 if at
        once.
    """

    now: ManagedConfig | None
    before: ManagedConfig | None
    spread_at: float


class SubscriptionSlots:
    """Slots: one active client per managed subscription. Times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._taken_until: dict[str, float] = {}

    def take(self, subscription_id: str, at: float) -> bool:
        """Take the slot; False if another client has it or has just left."""
        if at < self._taken_until.get(subscription_id, at):
            return False
        self._taken_until[subscription_id] = inf
        return True

    def leave(self, subscription_id: str, at: float, hold: float) -> None:
        """Return the slot; it is free after `hold` seconds."""
        self._taken_until[subscription_id] = at + hold

    def taken(self, subscription_id: str, at: float) -> bool:
        return at < self._taken_until.get(subscription_id, at)


class ManagedRegistry:
    """The managed subscriptions of one org. Safe to use from any thread.

    :param path: file for configs and committed ids; None to keep them in memory only.
    """

    def __init__(self, *, bus: Bus, clock: EmulatorClock, path: Path | None = None) -> None:
        self._bus = bus
        self._clock = clock
        self._path = path
        self._lock = threading.RLock()
        self._entries: dict[str, _Entry] = {}
        self._slots = SubscriptionSlots()
        self._delivered: dict[str, int] = {}
        if path and path.exists():
            self._restore(path)

    # --- setup ------------------------------------------------------------------------------------

    def create(
        self,
        name: str,
        topic: str,
        *,
        label: str = "",
        default_replay: str = "LATEST",
        error_recovery_replay: str = "LATEST",
        state: str = "RUN",
        version: str = VERSION,
        at_once: bool = False,
    ) -> ManagedConfig:
        """Create a subscription.

        :param at_once: the service knows it at once; otherwise after the knob
            `managed_propagation_seconds`.
        :raises ManagedRefusedError: the org would refuse it.
        """
        values = {
            "developer_name": name,
            "default_replay": default_replay,
            "error_recovery_replay": error_recovery_replay,
            "state": state,
            "version": version,
        }
        subscription_rules.check_values(values)
        served = [one.name for one in self._bus.topics if not one.streaming_only]
        subscription_rules.check_topic(topic, served)
        with self._lock:
            names = {one.developer_name for one in self.all()}
            subscription_rules.check_new(name, names, self._bus.knobs.max_managed)
            config = ManagedConfig(
                id=self._new_id(),
                label=label or name,
                topic=topic,
                created_at=self._clock.now(),
                **values,
            )
            self._entries[config.id] = _Entry(config, None, self._spread_at(at_once=at_once))
            self._changed()
        return config

    def update(self, name_or_id: str, *, at_once: bool = False, **changes: Any) -> ManagedConfig:
        """Change fields of a subscription; STOP drops its committed replay id.

        :param changes: `label`, `default_replay`, `error_recovery_replay`, `state`, `version`,
            `developer_name`.
        :raises ManagedRefusedError: the org would refuse it.
        """
        subscription_rules.check_changes(changes)
        with self._lock:
            old = self._existing(name_or_id)
            others = {one.developer_name for one in self.all() if one.id != old.id}
            if "developer_name" in changes:
                subscription_rules.check_new(changes["developer_name"], others, len(others) + 1)
            new = replace(old, **changes)
            if new.state == "STOP":
                new = replace(new, committed="")
            self._put(old.id, new, at_once=at_once)
        return new

    def delete(self, name_or_id: str, *, at_once: bool = False) -> None:
        """Delete a subscription and its committed replay id.

        :raises ManagedRefusedError: the subscription does not exist.
        """
        with self._lock:
            self._put(self._existing(name_or_id).id, None, at_once=at_once)

    def find(self, name_or_id: str) -> ManagedConfig | None:
        """Config in setup, by developer name or by an id of 15 or 18 characters."""
        with self._lock:
            return next((one for one in self.all() if _is(one, name_or_id)), None)

    def all(self) -> tuple[ManagedConfig, ...]:
        """Every config in setup, oldest first."""
        with self._lock:
            return tuple(entry.now for entry in self._entries.values() if entry.now)

    # --- service ----------------------------------------------------------------------------------

    def known(self, name_or_id: str) -> ManagedConfig | None:
        """Config that the service uses now; None if it does not know it, or no longer."""
        with self._lock:
            seen = (self.known_by_id(one) for one in self._entries)
            return next((one for one in seen if one and _is(one, name_or_id)), None)

    def known_by_id(self, subscription_id: str) -> ManagedConfig | None:
        """Like `known`, by the 18 characters of the id."""
        with self._lock:
            entry = self._entries[subscription_id]
            spread = self._clock.timestamp() >= entry.spread_at
            return entry.now if spread else entry.before

    def was_deleted(self, name_or_id: str) -> bool:
        """True if this is the id of a deleted subscription."""
        with self._lock:
            entry = self._entries.get(_long(name_or_id))
            return entry is not None and entry.now is None

    def spreads_in(self, subscription_id: str) -> float:
        """Seconds until the service knows the last change; 0 if it does."""
        with self._lock:
            return max(0.0, self._entries[subscription_id].spread_at - self._clock.timestamp())

    def take_slot(self, subscription_id: str) -> bool:
        """Take the slot of the single client; False if it is taken or was left just now."""
        with self._lock:
            return self._slots.take(subscription_id, time.monotonic())

    def leave_slot(self, subscription_id: str) -> None:
        with self._lock:
            hold = self._bus.knobs.slot_hold_seconds
            self._slots.leave(subscription_id, time.monotonic(), hold)

    def start(self, config: ManagedConfig) -> tuple[int, str]:
        """Position after which a stream starts, and its name.

        A preset or the committed id in hex.
        """
        with self._lock:
            committed = self._committed(config.id)
            how = subscription_rules.start(
                committed,
                valid=self._is_valid(committed),
                default=config.default_replay,
                recovery=config.error_recovery_replay,
            )
        if how == "committed":
            return self._bus.start(pb.CUSTOM, bytes.fromhex(committed)), committed
        return self._bus.start(_PRESETS[how], b""), how.lower()

    def delivered(self, subscription_id: str, position: int) -> None:
        """Record the position up to which a subscription's clients have received the bus."""
        with self._lock:
            self._delivered[subscription_id] = max(
                position, self._delivered.get(subscription_id, 0)
            )

    def commit(self, subscription_id: str, replay_id: bytes, delivered: int) -> str:
        """Commit a replay id. Return the reason of a failure; empty on success.

        :param delivered: furthest position that the client's stream has received.
        """
        with self._lock:
            entry = self._entries[subscription_id]
            if self._bus.knobs.commit_reach == "subscription":
                delivered = max(delivered, self._delivered.get(subscription_id, 0))
            error = subscription_rules.commit_error(
                replay_id,
                valid=self._is_valid(replay_id.hex()),
                delivered=delivered,
                committed=self._committed(subscription_id),
            )
            position = salesforce_ids.position_of(replay_id)
            if error or position is None or entry.now is None or entry.now.state != "RUN":
                return error or "The commit failed."
            # Clients may send 8 bytes; the committed id has the form of the events' ids.
            committed = self._bus.replay_id(position).hex()
            before, entry.now = entry.now, replace(entry.now, committed=committed)
            try:
                self._write()
            except EmulatorError:  # a full disk
                entry.now = before
                return "The commit failed."
            return ""

    # --- inside -----------------------------------------------------------------------------------

    def _committed(self, subscription_id: str) -> str:
        now = self._entries[subscription_id].now
        return now.committed if now else ""

    def _is_valid(self, replay_id: str) -> bool:
        try:
            self._bus.start(pb.CUSTOM, bytes.fromhex(replay_id))
        except RefusalError:
            return False
        return True

    def _existing(self, name_or_id: str) -> ManagedConfig:
        config = self.find(name_or_id)
        if config is None:
            known = ", ".join(one.developer_name for one in self.all()) or "none"
            raise ManagedRefusedError(
                "NOT_FOUND", f"no managed subscription {name_or_id!r} in this org; it has {known}"
            )
        return config

    def _put(self, config_id: str, config: ManagedConfig | None, *, at_once: bool) -> None:
        before = self.known_by_id(config_id)
        self._entries[config_id] = _Entry(config, before, self._spread_at(at_once=at_once))
        self._changed()

    def _spread_at(self, *, at_once: bool) -> float:
        if at_once:
            return 0.0
        return self._clock.timestamp() + self._bus.knobs.managed_propagation_seconds

    def _new_id(self) -> str:
        source = random.SystemRandom()
        made = salesforce_ids.random_id("18x", source)
        while made in self._entries:
            made = salesforce_ids.random_id("18x", source)
        return made

    def _changed(self) -> None:
        self._write()
        self._bus.wake()

    def _write(self) -> None:
        """Replace the file atomically."""
        if not self._path:
            return
        rows = [
            {
                "id": config_id,
                "now": entry.now and entry.now.to_json(),
                "before": entry.before and entry.before.to_json(),
                "spread_at": entry.spread_at,
            }
            for config_id, entry in self._entries.items()
        ]
        replace_file(self._path, json.dumps(rows, indent=1))

    def _restore(self, path: Path) -> None:
        latest = self._spread_at(at_once=False)  # the clock may have been ahead before the restart
        try:
            for row in json.loads(path.read_text()):
                now, before = (
                    ManagedConfig.from_json(row[name]) if row[name] else None
                    for name in ("now", "before")
                )
                self._entries[row["id"]] = _Entry(now, before, min(row["spread_at"], latest))
        except (ValueError, KeyError, TypeError) as error:
            raise EmulatorError(
                f"{path} is not an emulator's: {error!r}; remove it, or name another folder"
            ) from error


def _is(config: ManagedConfig, name_or_id: str) -> bool:
    return config.developer_name == name_or_id or config.id == _long(name_or_id)


def _long(text: str) -> str:
    return salesforce_ids.long_id(text[:15]) if salesforce_ids.is_id(text) else text
