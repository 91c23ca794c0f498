"""Resync entries: records and entities whose tables may differ from the org.

An entry has a beginning in the order of events: later events are kept, earlier ones are applied. So
a job that runs again after a kill decides as before. An entry also has the commit time of its last
cause: an older entity snapshot may lack the changes that this cause did not report.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from airflow_provider_sfevents.spark.changes.event import CLOCK_GRAIN

if TYPE_CHECKING:
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.order import EventOrder

Reason = Literal[
    "gap",  # a gap event
    "overflow",  # more changes in one transaction than the bus carries
    "loss",  # events left the bus unread, or the position fell back
    "unjoined",  # reading began at a place that is not known to join what was read before
    "unseeded",  # a new table that has not been filled from the org
    "wildcard",  # a change of all records of a prefix that does not say what became of them
    "no_base",  # an update of a record that is not there
    "diff",  # a long text came as a diff that could not be applied
    "kind",  # a member of a compound came in a new type, which the other members cannot be cast to
    "late",  # a change that is older than the record, after reading began again
    "undecodable",  # an event that cannot be decoded, or has no column for a field
    "unknown_type",  # a change type that this release does not know
]

WHOLE_ENTITY = "*"
"""Stands in place of a record's id in the table of entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResyncEntry:
    """Entry of a record or an entity: its rows may differ from the org.

    :param since: order of the first cause; later events are kept.
    :param last: order of the last cause; kept events before it are superseded by the snapshot that
        answers the entry.
    :param cause_at: commit time of the latest cause. A snapshot answers the entry if it began at
        least a second later, because commit times are whole seconds.
    :param reasons: each once, in the order in which they came up.
    :param detail: about the first cause, for people.
    """

    since: EventOrder
    last: EventOrder
    cause_at: datetime
    reasons: tuple[Reason, ...]
    detail: str = ""

    def with_cause(self, other: ResyncEntry) -> ResyncEntry:
        """Combine this entry with another cause."""
        first, second = sorted((self, other), key=lambda entry: entry.since)
        return replace(
            first,
            last=max(self.last, other.last),
            cause_at=max(self.cause_at, other.cause_at),
            reasons=tuple(dict.fromkeys((*first.reasons, *second.reasons))),
            detail=first.detail or second.detail,
        )

    def holds_back(self, order: EventOrder) -> bool:
        """True if an event at this place in the order is kept, not applied."""
        return self.since < order

    def is_answered_by(self, read_at: datetime) -> bool:
        """True if an entity snapshot that began at this time surely has the unreported changes."""
        return self.cause_at + CLOCK_GRAIN <= read_at


def cause(order: EventOrder, at: datetime, reason: Reason, detail: str = "") -> ResyncEntry:
    """Make an entry with one cause: an event, or a position in the order."""
    return ResyncEntry(since=order, last=order, cause_at=at, reasons=(reason,), detail=detail)


def together(one: ResyncEntry | None, other: ResyncEntry | None) -> ResyncEntry | None:
    """Combine two entries, either of which may be missing."""
    if one is None or other is None:
        return one or other
    return one.with_cause(other)
