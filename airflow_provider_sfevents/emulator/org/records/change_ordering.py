"""Order, numbering and grouping of a transaction's change events.

Rules, from the Change Data Capture Developer Guide: the same change of many records in one
transaction and second may be one event with several record ids; beyond 100,000 changes, one
overflow event per object replaces the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow_provider_sfevents.emulator.org.records.record_edits import ChangeDraft

NO_RECORD = "000000000000000AAA"
"""Record id of an overflow event."""

Enriched = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedEvent:
    """A planned change event.

    :param enriched: values that channels add to the body, by channel.
    """

    change_type: str
    entity: str
    record_ids: tuple[str, ...]
    user_id: str
    sequence_number: int
    fields: Mapping[str, Any] = field(default_factory=dict)
    diffs: tuple[str, ...] = ()
    enriched: Enriched = field(default_factory=dict)


def arrange(
    drafts: Sequence[tuple[ChangeDraft, Enriched]], *, most_records: int, most_changes: int
) -> list[PlannedEvent]:
    """Change events of one transaction, in order.

    :param drafts: changes of the transaction, with the values that channels add.
    :param most_records: most records in one event; 1 disables grouping.
    :param most_changes: number of changes after which the rest becomes an overflow.
    """
    groups: list[list[tuple[ChangeDraft, Enriched]]] = []
    for one in drafts[:most_changes]:
        if groups and len(groups[-1]) < most_records and _joins(groups[-1], one):
            groups[-1].append(one)
        else:
            groups.append([one])
    planned = [_planned(group, number) for number, group in enumerate(groups, 1)]
    rest = {draft.entity: draft.user_id for draft, _ in drafts[most_changes:]}
    return planned + [
        PlannedEvent(
            change_type="GAP_OVERFLOW",
            entity=entity,
            record_ids=(NO_RECORD,),
            user_id=user_id,
            sequence_number=number,
        )
        for number, (entity, user_id) in enumerate(rest.items(), len(planned) + 1)
    ]


def _planned(group: list[tuple[ChangeDraft, Enriched]], number: int) -> PlannedEvent:
    draft, enriched = group[0]
    return PlannedEvent(
        change_type=draft.change_type,
        entity=draft.entity,
        record_ids=tuple(one.record_id for one, _ in group),
        user_id=draft.user_id,
        sequence_number=number,
        fields=draft.fields,
        diffs=draft.diffs,
        enriched=enriched,
    )


def _joins(group: list[tuple[ChangeDraft, Enriched]], other: tuple[ChangeDraft, Enriched]) -> bool:
    """True if a change equals a group's changes except for a record that is new in the group."""
    (one, its), (two, others) = group[0], other
    if (one.entity, one.change_type, one.user_id) != (two.entity, two.change_type, two.user_id):
        return False
    if one.fields != two.fields or one.diffs != two.diffs or its != others:
        return False
    return all(draft.record_id != two.record_id for draft, _ in group)
