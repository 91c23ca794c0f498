"""Events that a managed subscription delivers again, and how they are left out. Pure decisions.

Salesforce starts after the replay id that was committed to it last. Here, and only here, that
commit follows *staging*: a manifest is written, its end is committed, and then the batch lands,
whether or not the commit succeeded. So after a death:

1. While fetching, without a closed file: Salesforce starts after the last batch. No event is known,
   and all are staged.
2. With closed files, without a manifest: it starts after the last batch. The files' events come
   again, are known, and are dropped.
3. Manifest written, end not committed: it starts after the batch before. The batch is reused, and
   its end is committed before anything is fetched.
4. As in 3, and that commit is refused: the batch's events come again, are known, and are dropped up
   to its end.
5. Two batches in a row not committed: it starts before both, and both are known. Batches are read,
   newest first, until one is found that was committed.
6. Committed, not landed: it starts after the batch. The batch is reused, and nothing comes again.
7. A keepalive's replay id committed: it starts after it, which equals the end of the batch. Nothing
   comes again.
8. The committed replay id expired or was cleared, and the subscription recovers at `EARLIEST`: all
   that the bus holds comes. Known events are dropped only if they come first; landing compares
   identities.
9. The same at `LATEST`: events are lost unseen. So that setting is refused unless it is accepted.
10. Begun at `LATEST`, nothing committed: it would start at another `LATEST`. It is not used: the
    position says where to continue, over a plain subscription, until a replay id is committed.

An event is known by its replay id and its own id together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.batches.recovery import FetchPlan
    from airflow_provider_sfevents.staging.manifest import Manifest, Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """A batch of the position's epoch, before the coming one.

    :param committed: Salesforce has confirmed that it keeps the batch's end.
    """

    manifest: Manifest
    receipt: Receipt | None = None
    committed: bool = False

    @property
    def is_what_landed(self) -> bool:
        """True if this form of the batch counts.

        If the batch landed in another form, with another end, this form must not decide what is
        dropped.
        """
        receipt = self.receipt
        return receipt is None or receipt.end in ("", self.manifest.end)


def may_come_again(newest_first: Iterable[Before]) -> tuple[Before, ...]:
    """Return the batches whose events Salesforce may deliver again, newest first.

    They are the last one, and those before it up to one that was committed. The last one always
    counts: an answered commit may have been undone by hand.
    """
    found = []
    for before in newest_first:
        if not before.is_what_landed:
            break
        found.append(before)
        if before.committed:
            break
    return tuple(found)


def to_commit_first(last: Before | None, *, moved_on: bool) -> str:
    """Return the replay id to commit before fetching, so that fewer events come again; empty: none.

    It is committed on a stream that requests no events.

    :param last: the batch before the coming one.
    :param moved_on: a keepalive after that batch was committed.
    """
    if last is None or last.committed or moved_on or not last.is_what_landed:
        return ""
    return last.manifest.end


def kept_replay_id(plan: FetchPlan) -> str:
    """Return a replay id, hex, that may be committed again at any time; empty: none is known.

    No event that is not staged comes before it.
    """
    point = plan.keepalive_points[0] if plan.keepalive_points else plan.start
    return point.to_text() if point.is_replay_id else ""
