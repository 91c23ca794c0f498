"""Leases on a batch, in the order of `staging.leases.take`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_sfevents.staging.lease_holder import Verdict
from tests.unit.model import decisions
from tests.unit.model.attempts import Step, failed
from tests.unit.model.world import BEGINNING, Claim, Key, Worker, World

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.model.rules import Rules


def _claim(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    claims = world.areas[me.area].claims(me.key)
    if not claims:
        yield "finds no lease", world.worker(me._replace(at="create", claim=1))
        return
    last = claims[-1]
    after = world.worker(me._replace(at="create", claim=last.number + 1))
    found = decisions.verdict(world, rules, last, stopped=False)
    if found is not Verdict.ALIVE:
        yield f"finds lease {last.number}: {found.value}", after
        return
    yield failed(world, me, f"gives way to lease {last.number}")
    if world.pauses and decisions.verdict(world, rules, last, stopped=True) is Verdict.DEAD:
        label = f"takes the stopped holder of lease {last.number} for dead"
        yield label, after._replace(pauses=world.pauses - 1)


def _create(rules: Rules, world: World, me: Worker) -> Iterator[Step]:
    area = world.areas[me.area]
    claims = area.claims(me.key)
    if rules.exclusive_create and any(one.number >= me.claim for one in claims):
        yield "is not the first to create the lease", world.worker(me._replace(at="claim"))
        return
    others = tuple(one for one in claims if one.number != me.claim)
    claimed = area.put_claims(me.key, (*others, Claim(me.claim, me.me)))
    at = "ask again" if me.key == BEGINNING else _once_claimed(me)
    label = f"creates lease {me.claim} on {named(me.key)}"
    yield label, world.area(me.area, claimed).worker(me._replace(at=at))


def _once_claimed(me: Worker) -> str:
    if me.enough:
        return "look again"
    return "reread" if me.seen else "look"


def claimed_at_once(
    rules: Rules, world: World, me: Worker, key: Key
) -> Iterator[tuple[str, World, int]]:
    """Take a batch's lease in one step; return its number, or 0 if another attempt holds it."""
    area = world.areas[me.area]
    claims = area.claims(key)
    number = claims[-1].number + 1 if claims else 1
    taken = world.area(me.area, area.put_claims(key, (*claims, Claim(number, me.me))))
    found = decisions.verdict(world, rules, claims[-1], stopped=False) if claims else Verdict.FREE
    if found is not Verdict.ALIVE:
        yield f"creates lease {number} on {named(key)}", taken, number
        return
    yield f"finds {named(key)} held", world, 0
    if world.pauses and decisions.verdict(world, rules, claims[-1], stopped=True) is Verdict.DEAD:
        label = f"takes the stopped holder of {named(key)} for dead"
        yield label, taken._replace(pauses=world.pauses - 1), number


def named(key: Key) -> str:
    """A batch, described for the story."""
    return "the beginning" if key == BEGINNING else f"batch {key[0]}-{key[1]}"


STEPS: dict[str, Callable[[Rules, World, Worker], Iterator[Step]]] = {
    "claim": _claim,
    "create": _create,
}
