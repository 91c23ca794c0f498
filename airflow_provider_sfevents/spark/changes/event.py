"""A decoded change event, with field names in place of bitmaps, as the rules here take it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self

from airflow_provider_sfevents.spark.changes.ids import Addressed, addressed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from airflow_provider_sfevents.spark.changes.order import EventOrder

WHOLE_ROW = frozenset({"CREATE", "UNDELETE"})
DELETIONS = frozenset({"DELETE", "GAP_DELETE"})
GAPS = frozenset({"GAP_CREATE", "GAP_UPDATE", "GAP_UNDELETE"})
OVERFLOW = "GAP_OVERFLOW"
KNOWN_TYPES = WHOLE_ROW | DELETIONS | GAPS | {"UPDATE", OVERFLOW}
"""`SNAPSHOT`, which newer schemas list, is reserved and has no documented meaning, so it is
unknown."""

_encode = json.JSONEncoder(
    separators=(",", ":")
).encode  # json.dumps would make another one for each event

CLOCK_GRAIN = timedelta(seconds=1)
"""A `commitTimestamp` is cut to whole seconds, so the change was committed at any moment of that
second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change event, or one that could not be decoded (`defect`).

    :param order: its place among all events of the source.
    :param entity: API name of the object; empty where it could not be read.
    :param change_type: as the header spells it; empty where it could not be read.
    :param record_ids: as the header has them: ids, wildcards, the id of no record.
    :param transaction_key: empty where it could not be read; such an event belongs to no
        transaction.
    :param committed_at: `commitTimestamp`, aware.
    :param changed: names of changed fields, members of compounds as `Parent.Member`; likewise
        `nulled` and `diffs`.
    :param values: by column of the event's table; compounds as dicts. A column that is missing is
        null.
    :param suspect: it may be older than the records it changes (`source.is_suspect`).
    :param defect: reason why it cannot be applied; its values and field names are then ignored.
    """

    order: EventOrder
    entity: str
    change_type: str
    record_ids: tuple[str, ...]
    transaction_key: str
    sequence_number: int
    committed_at: datetime
    changed: tuple[str, ...] = ()
    nulled: tuple[str, ...] = ()
    diffs: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    suspect: bool = False
    defect: str = ""

    @property
    def identity(self) -> str:
        """Text that is equal for two deliveries of one change, and for no two changes.

        Empty for an event without a transaction.

        The change type belongs to it: the overflow event of an entity may bear the number of its
        last normal event.
        """
        if not self.transaction_key:
            return ""
        return _encode(
            [
                self.entity,
                self.transaction_key,
                self.sequence_number,
                self.change_type,
                list(self.record_ids),
            ]
        )

    @property
    def fields(self) -> tuple[str, ...]:
        """Fields that an UPDATE sets; values of other fields are enrichment and are not changes."""
        return tuple(dict.fromkeys((*self.changed, *self.nulled, *self.diffs)))

    @property
    def addressed(self) -> Addressed:
        return addressed(self.record_ids)

    @property
    def updates_a_prefix(self) -> bool:
        """True for an UPDATE that names fields of every record of a prefix."""
        if self.change_type != "UPDATE" or self.defect:
            return False
        one = self.addressed
        return bool(one.prefixes and not one.whole and self.fields)

    @property
    def is_about_the_entity(self) -> bool:
        """True if the event may concern records that it does not name; the driver decides."""
        one = self.addressed
        return one.whole or bool(one.prefixes) or self.change_type == OVERFLOW or not self.entity

    @property
    def about_entity(self) -> Self | None:
        """The part of the event about its entity (`parts`)."""
        return self.parts()[1]

    def surely_before(self, moment: datetime) -> bool:
        """True if an entity snapshot that began at this time must contain the change."""
        return self.committed_at + CLOCK_GRAIN <= moment

    def of(self, record_id: str) -> Self:
        """Return the event as it is kept for one record: without its other record ids.

        An update of a whole prefix stays unchanged, because it has no effect on records that are
        missing.
        """
        return self if self.updates_a_prefix else replace(self, record_ids=(record_id,))

    def parts(self) -> tuple[Self | None, Self | None]:
        """Split the event into a part about single records and a part about the entity.

        Either may be missing.
        """
        if not self.is_about_the_entity:
            return self, None
        one = self.addressed
        if self.change_type == OVERFLOW or not self.entity:
            return None, self
        wildcards = tuple(f"{prefix}*" for prefix in one.prefixes)
        whole = replace(self, record_ids=("",) if one.whole else wildcards)
        return (replace(self, record_ids=one.records) if one.records else None), whole
