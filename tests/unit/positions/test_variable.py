from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import (
    ConfigurationError,
    PositionConflictError,
    TransportError,
)
from airflow_provider_sfevents.positions import stores
from airflow_provider_sfevents.positions.store_choice import open_store
from tests.unit.positions.building import ORG, TOPIC, begun

if TYPE_CHECKING:
    from airflow.sdk.execution_time import comms

    from airflow_provider_sfevents.positions.stores import PositionStore
    from tests.unit.positions.supervisor import Supervisor

KEY = "sfevents.load.event.Order__e"


@pytest.fixture
def store(supervisor: Supervisor) -> PositionStore:
    return open_store("variable", org_id=ORG, consumer="load", topic=TOPIC)


def test_a_variable_keeps_a_position(store: PositionStore, supervisor: Supervisor) -> None:
    """A position is one Variable, readable in the UI."""
    assert stores.read(store) is None
    stores.write(store, begun())
    assert stores.read(store) == begun()
    assert supervisor.variables == {KEY: begun().to_json()}


def test_another_variable_does_not_hide_that_it_is_missing(
    store: PositionStore, supervisor: Supervisor
) -> None:
    """A Variable whose key only has the same beginning is another position."""
    supervisor.variables[KEY + "x"] = begun().to_json()
    assert stores.read(store) is None


def test_an_api_server_that_does_not_answer_is_no_first_run(
    store: PositionStore, supervisor: Supervisor
) -> None:
    """An API server that fails, reported as a missing Variable, is an error and no first run."""
    supervisor.variables[KEY] = begun().to_json()
    supervisor.out_of_order = True
    with pytest.raises(TransportError, match=f"Variable '{KEY}' could not be read"):
        stores.read(store)


def test_a_variable_that_is_listed_but_cannot_be_read_is_no_first_run(
    store: PositionStore, supervisor: Supervisor
) -> None:
    """A Variable that is listed and cannot be read is an error and no first run."""

    def broken(asked: object) -> object:
        raise OSError("database is locked")

    supervisor.variables[KEY] = begun().to_json()
    supervisor._GetVariable = broken  # type: ignore[method-assign]
    with pytest.raises(TransportError, match="is there but could not be read"):
        stores.read(store)


def test_a_position_begun_between_two_looks_is_read(
    store: PositionStore, supervisor: Supervisor
) -> None:
    """A Variable that another first run writes between two look-ups is read."""
    keys = supervisor._GetVariableKeys

    def begun_by_then(asked: comms.GetVariableKeys) -> object:
        supervisor.variables[KEY] = begun().to_json()
        return keys(asked)

    supervisor._GetVariableKeys = begun_by_then  # type: ignore[method-assign]
    assert stores.read(store) == begun()


def test_a_position_that_cannot_be_written_is_told(
    store: PositionStore, supervisor: Supervisor
) -> None:
    """A failed write of the Variable is an error."""
    supervisor.out_of_order = True
    with pytest.raises(TransportError, match="could not be written"):
        stores.write(store, begun())


def test_a_write_that_is_lost_is_found_out(store: PositionStore, supervisor: Supervisor) -> None:
    """A write that was acknowledged and not kept is an error."""
    supervisor.forgets = True
    with pytest.raises(PositionConflictError, match="reads nothing right after it was written"):
        stores.write(store, begun())


def test_a_shadowed_variable_fails_and_names_what_shadows_it(
    store: PositionStore, supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An environment variable that hides the Variable is an error that names it."""
    shadow = "AIRFLOW_VAR_SFEVENTS.LOAD.EVENT.ORDER__E"
    monkeypatch.setenv(shadow, begun(epoch="shadow").to_json())
    with pytest.raises(PositionConflictError, match=f"reads something else .*{shadow}"):
        stores.write(store, begun())


@pytest.mark.parametrize("value", ["", "None", "earliest"])
def test_a_blank_or_hand_edited_variable_is_named(
    store: PositionStore, supervisor: Supervisor, value: str
) -> None:
    """An emptied or edited Variable is an error and no first run."""
    supervisor.variables[KEY] = value
    with pytest.raises(ConfigurationError, match=f"^Variable '{KEY}' does not hold a position"):
        stores.read(store)
