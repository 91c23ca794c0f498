"""Walks of one value through the modules of this package, traced on a real fetch.

Run by `python -m scripts.walks`.

1. The replay id of a stored position, from the Airflow Variable to the first FetchRequest.
2. An event's payload, from the FetchResponse to the row of a staged Parquet file.

A call has a value in hand if it is in an argument, in a field of its own object, or in a field of a
value (dataclass, tuple, list, dict, text). The walk consists of the calls through which the value
comes from its source to its end: a check that gets the value and does not hand it on is not part of
it. The numbers of modules have limits, and a walk beyond its limit ends with exit code 1.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import itertools
import os
import sys
import tempfile
import threading
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from upath import UPath

from airflow_provider_sfevents.batches.outcome import BatchRequest
from airflow_provider_sfevents.batches.stage import stage_batch
from airflow_provider_sfevents.emulator import Emulator
from airflow_provider_sfevents.positions import record
from airflow_provider_sfevents.positions.record_text import variable_key
from airflow_provider_sfevents.positions.variable import VariableStore
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import ClientCredentials, Settings
from airflow_provider_sfevents.pubsub.bounds import Bounds
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.staging.area import StagingArea
from airflow_provider_sfevents.staging.manifest import Run

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType

PACKAGE = "airflow_provider_sfevents"
TOPIC, CONSUMER = "/event/Order__e", "walks"
MARK = "walked-through-every-module"  # a text in one event's payload
LIMITS = {"replay id": 12, "payload": 8}
_DEEPEST = 5


def holds(value: Any, wanted: str | bytes, depth: int = _DEEPEST) -> bool:
    """Return whether a value is, or has in a field, the wanted text or bytes."""
    if isinstance(value, str | bytes):
        return isinstance(value, type(wanted)) and wanted in value  # type: ignore[operator]
    if depth == 0 or value is None or isinstance(value, int | float):
        return False
    return any(holds(one, wanted, depth - 1) for one in _fields(value))


def _fields(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from itertools.chain(value.keys(), value.values())
    elif isinstance(value, tuple | list | set | frozenset):
        yield from value
    elif isinstance(value, functools.partial):
        yield from (*value.args, *value.keywords.values())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, one.name, None) for one in dataclasses.fields(value))
    elif type(value).__name__ in {"FetchResponse", "ConsumerEvent", "ProducerEvent"}:
        yield value.SerializeToString()
    elif type(value).__name__.startswith("RepeatedComposite"):
        yield from value


@dataclass
class Walk:
    """Calls of this package that have one value in hand, and how it comes from one to the next.

    :param wanted: forms of the value: text, bytes.
    :param first: function that brings the value, such as `VariableStore.get`.
    :param last: function that ends the walk.
    """

    wanted: tuple[str | bytes, ...]
    first: str
    last: str
    after: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    codes: dict[int, CodeType] = field(default_factory=dict)
    calls: dict[FrameType, int] = field(default_factory=dict)
    holders: dict[int, tuple[int, Any]] = field(default_factory=dict)
    having: set[int] = field(default_factory=set)
    ends: list[int] = field(default_factory=list)

    def profile(self, frame: FrameType, event: str, value: Any) -> None:
        if self.ends or event not in {"call", "return"} or not _is_ours(frame.f_code):
            return
        is_new = frame not in self.calls
        call = self._number(frame)
        caller = _caller(frame)
        if event == "return":
            if caller is not None and self._has(value):
                self.having.add(self._number(caller))
                self.after[call].add(self._number(caller))
            return
        if is_new:
            self._called(frame, call, caller)

    def _called(self, frame: FrameType, call: int, caller: FrameType | None) -> None:
        names = frame.f_code.co_varnames[
            : frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount
        ]
        arguments = {name: frame.f_locals[name] for name in names if name in frame.f_locals}
        held = [one for one in arguments.values() if self._has(one)]
        if self._owns(arguments):
            held.append(arguments["self"])
        if not held:
            return
        self.having.add(call)
        if caller is not None and (before := self._number(caller)) in self.having:
            self.after[before].add(call)
        else:  # a task or thread of its own, or a method of an object that has the value
            for one in held:
                if id(one) in self.holders:
                    self.after[self.holders[id(one)][0]].add(call)
        for one in (*held, arguments.get("self")):  # a method may keep the value in its object
            self.holders.setdefault(id(one), (call, one))
        if frame.f_code.co_qualname == self.last:
            self.ends.append(call)

    def _number(self, frame: FrameType) -> int:
        call = self.calls.setdefault(frame, len(self.calls))
        self.codes[call] = frame.f_code
        return call

    def _has(self, value: Any) -> bool:
        return any(holds(value, one) for one in self.wanted)

    def _owns(self, arguments: dict[str, Any]) -> bool:
        own = arguments.get("self")
        return any(map(self._has, vars(own).values())) if hasattr(own, "__dict__") else False

    def modules(self) -> list[str]:
        """Return the modules between the first and the last function, by their first call."""
        begun = [call for call, code in self.codes.items() if code.co_qualname == self.first]
        forward = _reached(begun, self.after)
        before: dict[int, set[int]] = defaultdict(set)
        for one, others in self.after.items():
            for other in others:
                before[other].add(one)
        path = forward & _reached(self.ends[:1], before)
        return list(dict.fromkeys(_module(self.codes[one]) for one in sorted(path)))


def _reached(start: list[int], edges: dict[int, set[int]]) -> set[int]:
    found, to_visit = set(start), list(start)
    while to_visit:
        for one in edges.get(to_visit.pop(), set()) - found:
            found.add(one)
            to_visit.append(one)
    return found


def _caller(frame: FrameType) -> FrameType | None:
    """Return the nearest frame of this package that called; None in a task or thread of its own."""
    caller = frame.f_back
    while caller is not None and not _is_ours(caller.f_code):
        caller = caller.f_back
    return caller


def _is_ours(code: CodeType) -> bool:
    return f"/{PACKAGE}/" in code.co_filename and f"/{PACKAGE}/emulator/" not in code.co_filename


def _module(code: CodeType) -> str:
    return code.co_filename.rpartition(f"/{PACKAGE}/")[2].removesuffix(".py")


def walks_of_a_fetch() -> dict[str, list[str]]:
    """Fetch one batch after a stored position from the emulator; return both walks."""
    with Emulator() as bus, tempfile.TemporaryDirectory() as folder:
        bus.define_event("Order__e", {"Order_Number__c": "Text"})
        first, *_ = bus.publish(TOPIC, [{"Order_Number__c": "before"}])
        bus.publish(TOPIC, [{"Order_Number__c": MARK}])
        org = bus.connection()
        settings = Settings(
            login=ClientCredentials(
                login_url=org["host"], client_id=org["login"], client_secret=Secret(org["password"])
            ),
            endpoint=bus.endpoint,
            plaintext=True,
        )
        return asyncio.run(_traced(settings, first, StagingArea(UPath(folder))))


async def _traced(settings: Settings, replay_id: bytes, area: StagingArea) -> dict[str, list[str]]:
    run = Run(dag="walks", run="r1", task="land")
    async with PubSubClient(settings) as client:
        session = await client.session()
        position = record.begin(
            org_id=session.org_id,
            instance_url=session.instance_url,
            topic=TOPIC,
            consumer=CONSUMER,
            start=replay_id.hex(),
            at=datetime.now(UTC).isoformat(),
            by=run,
            staging_id=area.staging_id(),
        )
        position = replace(position, initial_replay="earliest")
        os.environ[f"AIRFLOW_VAR_{variable_key(CONSUMER, TOPIC).upper()}"] = position.to_json()
        walks = {
            "replay id": Walk((replay_id.hex(), replay_id), "VariableStore.get", "first_request"),
            "payload": Walk((MARK.encode(),), "BidiStream.arrival", "PartFile.write"),
        }

        def profile(frame: FrameType, event: str, value: Any) -> None:
            for walk in walks.values():
                walk.profile(frame, event, value)

        request = BatchRequest(
            topic=TOPIC,
            consumer=CONSUMER,
            run=run,
            bounds=Bounds(max_events=1, max_seconds=20),
        )
        threading.setprofile(profile)
        sys.setprofile(profile)
        try:
            staged = await stage_batch(
                request, client, area, lambda _: VariableStore(CONSUMER, TOPIC), asyncio.Event()
            )
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
        staged.release()
    return {name: walk.modules() for name, walk in walks.items()}


def main() -> int:
    walks = walks_of_a_fetch()
    for name, modules in walks.items():
        print(f"{name}: {len(modules)} modules (limit: {LIMITS[name]})")
        print("".join(f"  {number:2} {module}\n" for number, module in enumerate(modules, 1)))
    return int(any(not 0 < len(walks[name]) <= limit for name, limit in LIMITS.items()))


if __name__ == "__main__":
    sys.exit(main())
