"""Trace of one value through the calls of this package, with Python's profiling hook.

A call has a value in hand if it is in an argument, in a field of its own object, or in a field of a
value (dataclass, tuple, list, dict, text, Arrow rows). A DataFrame has the value if it has a column
of it; so has the name of a file that the value is in. The walk consists of the calls through which
the value comes from its source to its end: a check that gets the value and does not hand it on is
not part of it. A helper that has it only within a function that it is to call, such as a retry, is
passed through, and its module does not count.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections import defaultdict
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import CodeType, FrameType

PACKAGE = "airflow_provider_sfevents"
COLUMN = "column "
"""Prefix of a column's name, as a value that is wanted."""
_DEEPEST = 5
_CALLABLES = (functools.partial, FunctionType, MethodType)


def holds(value: Any, wanted: str | bytes, depth: int = _DEEPEST) -> bool:
    """Return whether a value is, or has in a field, the wanted text or bytes."""
    if isinstance(value, str | bytes):
        return isinstance(value, type(wanted)) and wanted in value  # type: ignore[operator]
    if depth == 0 or value is None or isinstance(value, int | float):
        return False
    return any(holds(one, wanted, depth - 1) for one in _fields(value))


def _fields(value: Any) -> Iterator[Any]:
    name = type(value).__name__
    if isinstance(value, dict):
        yield from itertools.chain(value.keys(), value.values())
    elif isinstance(value, tuple | list | set | frozenset) or name.startswith("RepeatedComposite"):
        yield from value
    elif isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, MethodType):
        yield from getattr(value.__self__, "__dict__", {}).values()
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield from (getattr(value, one.name, None) for one in dataclasses.fields(value))
    elif name in {"FetchResponse", "ConsumerEvent", "ProducerEvent"}:
        yield value.SerializeToString()
    else:
        yield from _of_frame(value)


def _of_frame(value: Any) -> Iterator[Any]:
    """Yield the values of Arrow's rows, or the columns of a DataFrame of either kind of session."""
    if type(value).__module__ == "pyarrow.lib" and hasattr(value, "to_pylist"):
        yield from value.to_pylist()
    elif type(value).__name__ == "DataFrame":
        yield from (f"{COLUMN}{name}" for name in value.columns)


@dataclass
class Walk:
    """Calls of this package that have one value in hand, and how it comes from one to the next.

    :param wanted: forms of the value: text, bytes.
    :param first: function that brings the value, such as `VariableStore.get`; empty: each that has
        it first, as a task of an executor does.
    :param last: functions that end the walk's stages, in order; none: one that hands the value to
        another package.
    """

    wanted: tuple[str | bytes, ...]
    first: str = ""
    last: tuple[str, ...] = ()
    after: dict[int, set[int]] = field(default_factory=lambda: defaultdict(set))
    codes: dict[int, CodeType] = field(default_factory=dict)
    calls: dict[FrameType, int] = field(default_factory=dict)
    holders: dict[int, tuple[int, Any]] = field(default_factory=dict)
    having: set[int] = field(default_factory=set)
    helpers: set[int] = field(default_factory=set)
    times: dict[int, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        return bool(self.ends) and len(self.ends) >= len(self.last)

    def profile(self, frame: FrameType, event: str, value: Any) -> None:
        if self.is_over or event not in {"call", "return"} or not _is_ours(frame.f_code):
            return
        is_new = frame not in self.calls
        call = self._number(frame)
        caller = _caller(frame)
        if event == "return":
            self._returned(call, caller, value)
            return
        if is_new:
            self._called(frame, call, caller)

    def _returned(self, call: int, caller: FrameType | None, value: Any) -> None:
        if not self._has(value):
            return
        if caller is not None:
            self.having.add(self._number(caller))
            self.helpers.discard(self._number(caller))
            self.after[call].add(self._number(caller))
        elif not self.last:
            self.ends["task"] = call

    def _called(self, frame: FrameType, call: int, caller: FrameType | None) -> None:
        code = frame.f_code
        names = (*code.co_varnames[: code.co_argcount + code.co_kwonlyargcount], *code.co_freevars)
        arguments = {name: frame.f_locals[name] for name in names if name in frame.f_locals}
        held = [one for one in arguments.values() if self._has(one)]
        if self._owns(arguments):
            held.append(arguments["self"])
        if not held:
            return
        self.having.add(call)
        if all(isinstance(one, _CALLABLES) for one in held):
            self.helpers.add(call)
        self._link(call, caller, held)
        for one in (*held, arguments.get("self")):  # a method may keep the value in its object
            self.holders.setdefault(id(one), (call, one))
        if (code.co_qualname,) == self.last[len(self.ends) :][:1]:
            self.ends[code.co_qualname] = call

    def _link(self, call: int, caller: FrameType | None, held: list[Any]) -> None:
        """Note whence a call has the value: from the nearest caller that has it, or an object.

        Callers in between are fed by an iterator. A task or thread has the value from an object.
        """
        while caller is not None and self._number(caller) not in self.having:
            caller = _caller(caller)
        if caller is not None:
            self.after[self._number(caller)].add(call)
            return
        for one in held:
            if id(one) in self.holders:
                self.after[self.holders[id(one)][0]].add(call)

    def _number(self, frame: FrameType) -> int:
        call = self.calls.setdefault(frame, len(self.calls))
        self.codes[call] = frame.f_code
        self.times.setdefault(call, time.monotonic_ns())
        return call

    def _has(self, value: Any) -> bool:
        return any(holds(value, one) for one in self.wanted)

    def _owns(self, arguments: dict[str, Any]) -> bool:
        own = arguments.get("self")
        return any(map(self._has, vars(own).values())) if hasattr(own, "__dict__") else False

    def ended_at(self) -> int:
        """Return the time of the call that ended the walk."""
        return max((self.times[call] for call in self.ends.values()), default=0)

    def modules(self) -> dict[str, int]:
        """Return the modules between the first and the last function, with their first call's time.

        The clock is the machine's, so that times of several processes can be compared.
        """
        before: dict[int, set[int]] = defaultdict(set)
        for one, others in self.after.items():
            for other in others:
                before[other].add(one)
        begun = [call for call, code in self.codes.items() if code.co_qualname == self.first]
        path = _reached(self.ends.values(), before)
        if self.first:
            path &= _reached(begun, self.after)
        found: dict[str, int] = {}
        for call in sorted(path - self.helpers):
            found.setdefault(_module(self.codes[call]), self.times[call])
        return found


def _reached(start: Iterable[int], edges: dict[int, set[int]]) -> set[int]:
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
