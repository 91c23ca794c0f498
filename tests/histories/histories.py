"""Histories of an org, made by Hypothesis so that a failing one shrinks to a few changes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

from tests.histories.org import Org

if TYPE_CHECKING:
    from collections.abc import Iterable

LONG = "\n".join(f"line {number} of a long description" for number in range(12))
_ENTITIES = ("Account", "Contact")


class Step(NamedTuple):
    """One change in the org; its record is chosen among those that exist at that moment."""

    kind: str
    entity: str = "Account"
    pick: int = 0
    many: int = 1
    change: int = 0
    how: str = "told"


class Transaction(NamedTuple):
    """Changes that are committed together."""

    steps: tuple[Step, ...]
    seconds: float = 10
    early_overflow: bool = False


CHANGES: tuple[dict[str, Any], ...] = (
    {"Industry": "Mining"},
    {"Industry": None},
    {"Industry": "Farming", "Employees": 7},
    {"Employees": None, "Rating": "Hot"},
    {"Name": "Acme"},
    {"Name": {"FirstName": "Ada", "LastName": "Byron"}},
    {"Name.FirstName": "Grace"},
    {"Name.LastName": None},
    {"Name": "Acme", "Name.FirstName": None},
    {"Name": None},
    {"BillingAddress": {"Street": "1 Main St", "City": "Bath"}},
    {"BillingAddress.Street": None, "BillingAddress.City": None},
    {"BillingAddress.City": "York"},
    {"BillingAddress": None},
    {"Extra__c": 4.5},
    {"Description": LONG},
)
_DESCRIPTIONS = (
    LONG.replace("line 3", "LINE 3"),
    LONG.replace("line 7 of a long description\n", ""),
    LONG + "\nand one more",
    LONG + "\n",
    LONG.replace("\n", "\r\n").replace("line 5", "line five"),
)
_VALUES: tuple[dict[str, Any], ...] = (
    {"Name": {"FirstName": "Alan", "LastName": "Turing"}, "Description": LONG},
    {"Name": {"LastName": "Hopper"}, "Industry": "Shipping", "Description": LONG + "\r\n"},
    {"BillingAddress": {"City": "Hull"}, "Employees": 3, "Rating": "Cold"},
    {},
)

_HOW = (*["told"] * 8, "gap", "unknown", "broken")


def _steps(
    kind: str,
    how: tuple[str, ...] = ("told",),
    *,
    pick: int = 6,
    many: tuple[int, ...] = (1,),
    changes: int = 1,
) -> list[Step]:
    """All steps of a kind, one of which is drawn.

    To draw each part by itself would take most of a history's time.
    """
    parts = itertools.product(range(changes), range(pick), many, how, _ENTITIES)
    return [
        Step(kind, entity, at, number, change, said) for change, at, number, said, entity in parts
    ]


_STEPS = (
    _steps("create", _HOW, changes=len(_VALUES), pick=1),
    _steps("update", _HOW, many=(1, 1, 2, 3), changes=len(CHANGES)),
    _steps("describe", ("diff", "diff", "bad_diff", "told"), changes=len(_DESCRIPTIONS)),
    _steps("delete", ("told", "told", "gap"), many=(1, 1, 2)),
    _steps("undelete", _HOW, changes=len(_VALUES)),
    _steps("convert", ("told", "told", "told", "silent", "gap", "no_record"), pick=1),
)
# If every third step hid all others of its transaction, few rules would be tested. Hypothesis
# counts a strategy that is given twice once.
_ANY_STEP = st.one_of(
    *map(st.sampled_from, _STEPS * 3), st.sampled_from(_steps("overflow", pick=1))
)


def transactions(*, seconds: tuple[float, ...] = (10,)) -> st.SearchStrategy[list[Transaction]]:
    """Histories; `seconds` are the possible times between two transactions."""
    one = st.builds(
        lambda steps, ends: Transaction(tuple(steps), *ends),
        st.lists(_ANY_STEP, min_size=1, max_size=4),
        st.sampled_from([*itertools.product(seconds, (False, True))]),
    )
    # A history without a record tests little, and a short one not much more.
    begun = Transaction(
        (Step("create", change=2), Step("create", change=0), Step("create", "Contact", change=1)),
        seconds[-1],
    )
    return st.lists(one, min_size=3, max_size=12).map(lambda following: [begun, *following])


def told(history: Iterable[Transaction]) -> Org:
    """Apply a history to a new org."""
    org = Org()
    for transaction in history:
        org.begin(transaction.seconds)
        for step in transaction.steps:
            _do(org, step)
        org.commit(early_overflow=transaction.early_overflow)
    return org


def _do(org: Org, step: Step) -> None:
    entity = step.entity
    there = sorted(org.records[entity])
    if step.kind == "overflow":
        org.overflow(entity)
    elif step.kind == "undelete" and org.bin[entity]:
        binned = sorted(org.bin[entity])
        org.undelete(entity, binned[step.pick % len(binned)], step.how)
    elif step.kind in {"create", "undelete"} or not there:
        how = step.how if step.kind == "create" else "told"
        org.create(entity, dict(_VALUES[step.change % len(_VALUES)]), how)
    else:
        first = step.pick % len(there)
        _change(org, step, (there[first:] + there[:first])[: step.many])


def _change(org: Org, step: Step, ids: list[str]) -> None:
    match step.kind:
        case "delete":
            org.delete(step.entity, ids, step.how)
        case "convert":
            org.convert(step.entity, "Industry", {"Rating": "Converted"}, step.how)
        case "describe":
            text = _DESCRIPTIONS[step.change]
            org.update(step.entity, ids[:1], {"Description": text}, step.how)
        case _:
            org.update(step.entity, ids, CHANGES[step.change], step.how)
