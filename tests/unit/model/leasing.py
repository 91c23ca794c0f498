"""Leases on a batch, in the order of `staging.leases.take`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.staging.lease_holder import LeaseState
from tests.unit.model import decisions
from tests.unit.model.attempts import Step, failed
from tests.unit.model.world import BEGINNING, Key, Lease, Worker, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.model.rules import Rules


def _take_lease(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    leases = world.areas[me.area].leases(me.key)
    if not leases:
        yield "finds no lease", world.worker(me._replace(at="create", lease=1))
        return
    last = leases[-1]
    after = world.worker(me._replace(at="create", lease=last.number + 1))
    found = decisions.verdict(world, rules, last, stopped=False)
    if found is not LeaseState.ALIVE:
        yield f"finds lease {last.number}: {found.value}", after
        return
    yield failed(world, me, f"gives way to lease {last.number}")
    if world.pauses and decisions.verdict(world, rules, last, stopped=True) is LeaseState.DEAD:
        label = f"takes the stopped holder of lease {last.number} for dead"
        yield label, after._replace(pauses=world.pauses - 1)


def _create(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    area = world.areas[me.area]
    leases = area.leases(me.key)
    if rules.exclusive_create and any(one.number >= me.lease for one in leases):
        yield "is not the first to create the lease", world.worker(me._replace(at="lease"))
        return
    others = tuple(one for one in leases if one.number != me.lease)
    leased = area.put_leases(me.key, (*others, Lease(me.lease, me.me)))
    at = "ask again" if me.key == BEGINNING else _once_leased(me)
    label = f"creates lease {me.lease} on {named(me.key)}"
    yield label, world.area(me.area, leased).worker(me._replace(at=at))


def _once_leased(me: Worker) -> str:
    if me.enough:
        return "look again"
    return "reread" if me.seen else "look"


def leased_at_once(
    rules: Rules, world: World, me: Worker, key: Key
) -> Iterator[tuple[str, World, int]]:
    """Take a batch's lease in one step; return its number, or 0 if another attempt holds it."""
    area = world.areas[me.area]
    leases = area.leases(key)
    number = leases[-1].number + 1 if leases else 1
    taken = world.area(me.area, area.put_leases(key, (*leases, Lease(number, me.me))))
    found = (
        decisions.verdict(world, rules, leases[-1], stopped=False) if leases else LeaseState.FREE
    )
    if found is not LeaseState.ALIVE:
        yield f"creates lease {number} on {named(key)}", taken, number
        return
    yield f"finds {named(key)} held", world, 0
    if (
        world.pauses
        and decisions.verdict(world, rules, leases[-1], stopped=True) is LeaseState.DEAD
    ):
        label = f"takes the stopped holder of {named(key)} for dead"
        yield label, taken._replace(pauses=world.pauses - 1), number


def named(key: Key) -> str:
    """A batch, described for the story."""
    return "the beginning" if key == BEGINNING else f"batch {key[0]}-{key[1]}"


STEPS: dict[str, Callable[[Rules, World, Worker], Iterator[Step]]] = {
    "lease": _take_lease,
    "create": _create,
}
