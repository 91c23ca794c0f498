from __future__ import annotations

import shelve
from typing import TYPE_CHECKING

import pytest
from typing_extensions import override

from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    PositionConflict,
    TransportError,
)
from airflow_provider_sfevents.positions import stores
from airflow_provider_sfevents.positions.opening import open_store
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
    """A mapping, an object with `get` and `set`, something that makes one, or the dotted path of any of these."""
    store = opened(spec)
    assert stores.read(store) is None
    stores.write(store, begun())
    assert stores.read(store) == begun()


def test_positions_of_one_store_have_keys_of_their_own() -> None:
    """Consumers and topics share a mapping without meeting."""
    mapping: dict[str, str] = {}
    for consumer, topic in (("a", "/event/A__e"), ("b", "/event/A__e"), ("a", "/data/A__e")):
        stores.write(open_store(mapping, org_id=ORG, consumer=consumer, topic=topic), begun())
    assert set(mapping) == {
        "sfevents.a.event.A__e",
        "sfevents.b.event.A__e",
        "sfevents.a.data.A__e",
    }


def test_a_shelf_is_a_mapping(tmp_path: Path) -> None:
    """Any mutable mapping will do, a file on disk among them."""
    with shelve.open(str(tmp_path / "positions")) as shelf:  # noqa: S301 - the test's own
        stores.write(opened(shelf), begun())
    with shelve.open(str(tmp_path / "positions")) as shelf:  # noqa: S301 - the test's own
        assert stores.read(opened(shelf)) == begun()


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (3, "neither a mapping nor"),
        (None, "position_store is empty"),
        ("", "position_store is empty"),
        ("varaible", "position_store='varaible' is not a store"),
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
        "makes something else",
        "coroutines",
    ],
)
def test_what_is_no_store_is_refused(spec: object, message: str) -> None:
    """The mistake is named before anything is spent."""
    with pytest.raises(ConfigurationError, match=message):
        opened(spec)


def test_a_store_that_does_not_answer_is_not_empty() -> None:
    """Trouble is told as trouble, never as a first run."""
    with pytest.raises(
        TransportError, match=rf"Key '{KEY}' of Down does not answer: OSError: connection refused"
    ):
        stores.read(opened(Down()))


def test_a_store_that_forgets_is_found_out() -> None:
    """What was written is read back; a position that only looks written would be fetched again."""
    with pytest.raises(
        PositionConflict,
        match=r"Forgetful reads nothing right after it was written\. .*must read what it wrote",
    ):
        stores.write(opened(Forgetful()), begun())


def test_a_foreign_value_is_refused() -> None:
    """What is there and is no text is no position."""
    with pytest.raises(ConfigurationError, match="holds a int; a position is text"):
        stores.read(opened({KEY: 3}))
