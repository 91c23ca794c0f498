"""What a managed subscription delivers again, and what is done about it. Values in, answers out.

Salesforce keeps the place, and starts after what was committed there last. Here, and only here, that commit follows *staged*: a manifest is
written, then its end is committed, then the batch is landed, whatever became of the commit. So what comes after a death:

| died ...                              | the service starts                  | and                                                                  |
|---|---|---|
| while fetching, nothing closed        | after the last batch                | nothing is known: all of it is staged                                |
| with closed files, no manifest        | after the last batch                | what they hold comes again, is known, dropped                        |
| manifest written, not committed       | after the batch before              | the batch is adopted, its end committed before anything is fetched   |
| ... and that commit is refused        | after the batch before              | its events come again, are known, dropped up to its end              |
| two batches in a row not committed    | after the one before both           | both are known: a batch is looked at until one is that was committed |
| committed, not landed                 | after the batch                     | the batch is adopted; nothing comes again                            |
| a keepalive's place committed         | after it, the same as the batch     | nothing comes again                                                  |
| its place expired, or was cleared     | at `EARLIEST`: all the bus holds    | nothing is dropped unless it comes first; landing compares identities|
| likewise                              | at `LATEST`                         | lost unseen; so that is refused unless it is accepted                |
| begun at `LATEST`, nothing committed  | at another `LATEST`                 | it is not asked: our own record says where to go on, over a plain subscription, until a place is taken |

An event is known by its replay id and its own id together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.pubsub.replay_ids import LATEST

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_sfevents.staging.manifest import Manifest, Receipt


@dataclass(frozen=True, slots=True, kw_only=True)
class Before:
    """A batch of the position's epoch, before the coming one.

    :param committed: the service has said that it keeps the batch's end.
    """

    manifest: Manifest
    receipt: Receipt | None = None
    committed: bool = False

    @property
    def is_what_landed(self) -> bool:
        """Whether another form of the batch counts, which ended elsewhere: then this one says nothing of what may be dropped."""
        receipt = self.receipt
        return receipt is None or receipt.end in ("", self.manifest.end)


def may_come_again(newest_first: Iterable[Before]) -> tuple[Before, ...]:
    """The batches whose events the service may deliver again: the last one, and those before it up to one that was committed.

    The last one counts in any case: a commit that was answered may still have been undone by hand.
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
    """The replay id to commit before anything is fetched, so that less comes again; empty: there is none.

    It is committed on a stream that asks for nothing.

    :param last: the batch before the coming one.
    :param moved_on: a keepalive after that batch was committed.
    """
    if last is None or last.committed or moved_on or not last.is_what_landed:
        return ""
    return last.manifest.end


def place_of(start: str, anchor: str) -> str:
    """A place that may be committed again at any time, as nothing unstaged lies before it; empty: none is known.

    :param start: where the coming batch starts. :param anchor: a keepalive's replay id after it, or empty.
    """
    place = anchor or start
    return "" if place in {"earliest", LATEST} else place
