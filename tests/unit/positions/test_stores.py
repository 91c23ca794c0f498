from __future__ import annotations

import shelve
from typing import TYPE_CHECKING, Any

import pytest
from typing_extensions import override

from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    PositionConflictError,
    TransportError,
)
from airflow_provider_sfevents.positions import stores
from airflow_provider_sfevents.positions.store_choice import open_store
from tests.unit.positions.building import ORG, TOPIC, begun

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_sfevents.positions.stores import PositionStore

KEY = "sfevents.load.event.Order__e"


class Kept:
    """A user's store: `get` and `set`."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def get(self, key: str) -> str | None:
        return self.values.get(key)

    def set(self, key: str, value: str) -> None:
        self.values[key] = value


class AsBytes(Kept):
    """A store that answers in bytes, as a Redis client does."""

    @override
    def get(self, key: str) -> bytes | None:  # type: ignore[override]
        found = self.values.get(key)
        return None if found is None else found.encode()


class Forgetful(Kept):
    @override
    def set(self, key: str, value: str) -> None:
        pass


class Down(Kept):
    @override
    def get(self, key: str) -> str | None:
        raise OSError("connection refused")


class Asynchronous:
    async def get(self, key: str) -> str | None: ...
    async def set(self, key: str, value: str) -> None: ...


SHARED: dict[str, str] = {}


def made_in_the_worker() -> Kept:
    return Kept()


def opened(spec: object) -> PositionStore:
    return open_store(spec, org_id=ORG, consumer="load", topic=TOPIC)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        Kept(),
        AsBytes(),
        Kept,
        made_in_the_worker,
        f"{__name__}.Kept",
        f"{__name__}.made_in_the_worker",
        f"{__name__}.SHARED",
    ],
    ids=[
        "mapping",
        "object",
        "bytes",
        "class",
        "function",
        "path of a class",
        "path of a function",
        "path of a mapping",
    ],
)
def test_a_users_own_store_keeps_a_position(spec: object) -> None:
    """A store may be a mapping, an object with `get` and `set`, a callable, or a dotted path."""
    store = opened(spec)
    assert stores.read(store) is None
    stores.write(store, begun())
    assert stores.read(store) == begun()


def test_positions_of_one_store_have_keys_of_their_own() -> None:
    """Consumers and topics have different keys in one mapping."""
    mapping: dict[str, str] = {}
    for consumer, topic in (("a", "/event/A__e"), ("b", "/event/A__e"), ("a", "/data/A__e")):
        stores.write(open_store(mapping, org_id=ORG, consumer=consumer, topic=topic), begun())
    assert set(mapping) == {
        "sfevents.a.event.A__e",
        "sfevents.b.event.A__e",
        "sfevents.a.data.A__e",
    }


def test_a_shelf_is_a_mapping(tmp_path: Path) -> None:
    """Any mutable mapping is a store, such as a `shelve` file."""
    with shelve.open(str(tmp_path / "positions")) as shelf:  # noqa: S301 - the test's own
        stores.write(opened(shelf), begun())
    with shelve.open(str(tmp_path / "positions")) as shelf:  # noqa: S301 - the test's own
        assert stores.read(opened(shelf)) == begun()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (3, "neither a mapping nor"),
        (None, "position_store=None is not a store"),
        ("", "position_store='' is not a store"),
        ("varaible", "position_store='varaible' is not a store. Give 'variable', 'asset'"),
        ("no.such.module", "position_store='no.such.module' is not a store"),
        (f"{__name__}.Nothing", "is not a store: .*Nothing"),
        (object, "gives a object, which is neither"),
        (Asynchronous, "must be plain methods, not coroutines"),
    ],
    ids=[
        "number",
        "none",
        "blank",
        "typing mistake",
        "no module",
        "no such name",
        "makes another type",
        "coroutines",
    ],
)
def test_what_is_no_store_is_refused(spec: object, message: str) -> None:
    """A value that is no store is refused before anything is fetched."""
    with pytest.raises(ConfigurationError, match=message):
        opened(spec)


def test_a_store_that_does_not_answer_is_not_empty() -> None:
    """A store that does not answer is an error and no first run."""
    with pytest.raises(
        TransportError, match=rf"Key '{KEY}' of Down does not answer: OSError: connection refused"
    ):
        stores.read(opened(Down()))


def test_a_store_that_forgets_is_found_out() -> None:
    """A write that the store does not keep is an error, because each write is read back."""
    with pytest.raises(
        PositionConflictError,
        match=r"Forgetful reads nothing right after it was written\. .*must read what it wrote",
    ):
        stores.write(opened(Forgetful()), begun())


def test_a_foreign_value_is_refused() -> None:
    """A stored value that is no text is refused as a position."""
    with pytest.raises(ConfigurationError, match="holds a int; a position is text"):
        stores.read(opened({KEY: 3}))


def test_a_users_record_is_deleted_where_the_store_can() -> None:
    """A mapping and a store with `delete(key)` are emptied; any other names the key."""

    class Deleting(Kept):
        def delete(self, key: str) -> None:
            self.values.pop(key, None)

    mapping = {KEY: "record"}
    deleting = Deleting()
    deleting.set(KEY, "record")
    for own in (mapping, deleting):
        store = stores.open_own(own, consumer="load", topic=TOPIC)
        store.delete()
        store.delete()
        assert store.get() is None
    with pytest.raises(ConfigurationError, match=r"has no method `delete\(key\)`"):
        stores.open_own(Kept(), consumer="load", topic=TOPIC).delete()


def test_a_position_that_was_copied_is_refused() -> None:
    """A record copied from another topic is refused, naming its consumer and topic."""
    copied = {KEY: begun(topic="/event/Other__e").to_json()}
    with pytest.raises(
        PositionConflictError,
        match=rf"'load' on /event/Other__e, and not of 'load' on {TOPIC}: .* forget load {TOPIC}",
    ):
        stores.read(opened(copied))


@pytest.mark.parametrize(
    ("spec", "option"),
    [
        ({}, " --position-store <dotted path>"),
        (f"{__name__}.SHARED", f" --position-store {__name__}.SHARED"),
    ],
    ids=["mapping", "path"],
)
def test_rubbish_in_a_users_own_store_names_the_command(spec: Any, option: str) -> None:
    """The error of an unreadable record in a user's store names the command with that store."""
    mapping = SHARED if isinstance(spec, str) else spec
    mapping[KEY] = "rubbish"
    with pytest.raises(ConfigurationError) as refused:
        stores.read(opened(spec))
    del mapping[KEY]
    assert f"`airflow sfevents position forget load {TOPIC}{option}`" in str(refused.value)


class Stale(Kept):
    """A store with a cache in front: it repeats its first answer."""

    @override
    def get(self, key: str) -> str | None:
        self.first = getattr(self, "first", self.values.get(key))
        return self.first


def test_a_store_that_answers_from_a_cache_is_found_out() -> None:
    """A store that answers from a cache after a write is an error."""
    store = opened(Stale())
    assert stores.read(store) is None
    with pytest.raises(
        PositionConflictError, match="Stale reads nothing right after it was written"
    ):
        stores.write(store, begun())
