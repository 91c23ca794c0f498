"""Position stores, as the rest of the package sees them: get and set one text.

A store distinguishes "there is no position" from "it could not be read": `get` returns `None` only
if certainly nothing is there, and raises otherwise. If an unreachable database were taken for a
first run, everything would be fetched again, or events would be skipped.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from importlib import import_module
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents import steps
from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    PositionConflictError,
    SfEventsError,
    TransportError,
)
from airflow_provider_sfevents.positions.record import Position
from airflow_provider_sfevents.positions.record_text import Whose, asset_key, variable_key

if TYPE_CHECKING:
    from collections.abc import Callable


class PositionStore(Protocol):
    """Store of one position.

    :ivar where: the record's location as a user finds it; begins a sentence.
    :ivar advice: what to check if a written value reads back differently.

    A store that knows consumer and topic of its position has them in `whose`, so that messages name
    the exact command.
    """

    where: str
    advice: str

    def get(self) -> str | None:
        """Return the record, or `None` if there certainly is none.

        :raises SfEventsError: it could not be read.
        """

    def set(self, record: str) -> None:
        """Write the record.

        :raises SfEventsError: it could not be written.
        """


def read(store: PositionStore) -> Position | None:
    """Return the position; `None` if there certainly is none.

    :raises ConfigurationError: the value is no position.
    :raises PositionConflictError: it is the position of another consumer or topic.
    :raises SfEventsError: the store does not answer.
    """
    record = store.get()
    if record is None:
        return None
    whose = getattr(store, "whose", Whose())
    position = Position.from_json(record, store.where, whose)
    _check_whose(position, whose, store.where)
    return position


def _check_whose(position: Position, whose: Whose, where: str) -> None:
    """Refuse a position that was copied from another consumer or topic.

    :raises PositionConflictError: consumer or topic differ.
    """
    if not whose.is_known or (position.consumer, position.topic) == (whose.consumer, whose.topic):
        return
    raise PositionConflictError(
        f"{where} holds the position of consumer {position.consumer!r} on {position.topic}, and "
        f"not of {whose.consumer!r} on {whose.topic}: it was copied there. Nothing was fetched, "
        f"and the position was not moved. Begin anew: {whose.command('forget')}; or set the replay "
        f"id to continue from: {whose.command('set', '<replay id>')}."
    )


def read_listed(record: str, where: str) -> Position:
    """Read a record that was found by its name among all Variables or states of assets.

    :raises ConfigurationError: it is no position, or it was copied under another name.
    """
    position = Position.from_json(record, where)
    consumer, topic = position.consumer, position.topic
    own = asset_key(consumer) if where.startswith("State ") else variable_key(consumer, topic)
    if f" {own!r}" not in where:
        raise ConfigurationError(
            f"{where} holds the position of consumer {consumer!r} on {topic}: it was copied there, "
            f"and no task may use it. If it is nowhere else, copy it back to {own!r}; then delete "
            "this one."
        )
    return position


def write(store: PositionStore, position: Position) -> None:
    """Write once, and read back what readers will see from now on.

    :raises PositionConflictError: the store kept another value.
    :raises SfEventsError: the store does not answer; whether it wrote is not known, and a commit
        may be repeated.
    """
    record = position.to_json()
    store.set(record)
    steps.reached(steps.POSITION_SET, store.where)
    kept = store.get()
    if kept != record:
        raise PositionConflictError(
            f"{store.where} reads {'nothing' if kept is None else 'something else'} right after it "
            f"was written. {store.advice}"
        )


class MappingStore:
    """A position in any mapping of text to text: tests, a shelf, a database behind a dict."""

    advice = "The mapping did not return the value that was just written. Use a different mapping."

    def __init__(
        self, mapping: MutableMapping[str, str], key: str, whose: Whose | None = None
    ) -> None:
        self.whose = whose or Whose()
        self._mapping = mapping
        self._key = key
        self.where = f"Key {key!r} of {type(mapping).__name__}"

    def get(self) -> str | None:
        return _text(_asked(self.where, lambda: self._mapping.get(self._key)), self.where)

    def set(self, record: str) -> None:
        _asked(self.where, lambda: self._mapping.__setitem__(self._key, record))

    def delete(self) -> None:
        _asked(self.where, lambda: self._mapping.pop(self._key, None))


class OwnStore:
    """A position in a user's store: `get(key)` returns text or `None`, `set(key, value)` writes."""

    advice = (
        "The store did not return the value that was just written, or reads from another location; "
        "it must read what it wrote."
    )

    def __init__(self, own: Any, key: str, whose: Whose | None = None) -> None:
        self.whose = whose or Whose()
        self._own = own
        self._key = key
        self.where = f"Key {key!r} of {type(own).__name__}"

    def get(self) -> str | None:
        return _text(_asked(self.where, lambda: self._own.get(self._key)), self.where)

    def set(self, record: str) -> None:
        _asked(self.where, lambda: self._own.set(self._key, record))

    def delete(self) -> None:
        """Delete the record.

        :raises ConfigurationError: the store has no `delete(key)`, so it cannot be deleted from
            here.
        """
        if not callable(getattr(self._own, "delete", None)):
            raise ConfigurationError(
                f"{self.where} has no method `delete(key)`: remove the record there by hand, then "
                "give the command again."
            )
        _asked(self.where, lambda: self._own.delete(self._key))


def open_own(spec: Any, *, consumer: str, topic: str) -> MappingStore | OwnStore:
    """Return a store that is not Airflow's.

    :param spec: a mapping; an object with `get` and `set`; a callable that returns one of these; or
        the dotted path of any of them.
    :raises ConfigurationError: it is none of these.
    """
    own = find_own(spec) if isinstance(spec, str) else spec
    if callable(own) and not _keeps(own):
        own = _made(spec, own)
    key = variable_key(consumer, topic)
    named = spec if isinstance(spec, str) else "<dotted path>"
    whose = Whose(consumer=consumer, topic=topic, store=named)
    if isinstance(own, MutableMapping):
        return MappingStore(own, key, whose)
    if not _keeps(own):
        raise ConfigurationError(
            f"position_store={spec!r} gives a {type(own).__name__}, which is neither a mapping nor "
            "has the methods `get(key)` and `set(key, value)`."
        )
    if iscoroutinefunction(own.get) or iscoroutinefunction(own.set):
        raise ConfigurationError(
            f"position_store={spec!r}: `get` and `set` must be plain methods, not coroutines."
        )
    return OwnStore(own, key, whose)


def _made(spec: Any, make: Callable[[], Any]) -> Any:
    """Call what makes a store.

    :raises TransportError: it raised.
    """
    try:
        return make()
    except Exception as error:
        raise TransportError(
            f"position_store={spec!r} could not be opened: {type(error).__name__}: {error}. The "
            "position was not moved; try again."
        ) from error


def _keeps(own: Any) -> bool:
    if isinstance(own, type):
        return False  # a class has the methods too, but must be called first
    return isinstance(own, MutableMapping) or (
        callable(getattr(own, "get", None)) and callable(getattr(own, "set", None))
    )


def find_own(path: str) -> Any:
    """Import the object that a dotted path names; it is not called yet.

    :raises ConfigurationError: the path cannot be imported.
    """
    module, _, name = path.rpartition(".")
    try:
        return getattr(import_module(module), name)
    except Exception as error:
        said = str(error) if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise ConfigurationError(
            f"position_store={path!r} is not a store: {said}. Give 'variable', 'asset', 'xcom', "
            "'managed', or the dotted path of a class or function that is importable on the "
            "workers."
        ) from error


def _asked(where: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except SfEventsError:
        raise
    except Exception as error:
        raise TransportError(
            f"{where} does not answer: {type(error).__name__}: {error}. The position was not "
            "moved; try again."
        ) from error


def _text(value: object, where: str) -> str | None:
    if isinstance(value, bytes):  # Redis clients and the like
        try:
            return value.decode()
        except UnicodeDecodeError as error:
            raise ConfigurationError(f"{where} holds bytes that are not UTF-8 text.") from error
    if value is None or isinstance(value, str):
        return value
    raise ConfigurationError(f"{where} holds a {type(value).__name__}; a position is text.")
