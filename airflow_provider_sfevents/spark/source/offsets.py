"""Offsets of the source `sfevents`: the batches of a topic in order, and those after an offset.

No I/O, no Spark.

1. Epochs are ordered by the epoch that each names as its previous one, batches by their number.
2. A batch is offered when its form is settled: it has a receipt, or the position has moved past it
   (a later batch is staged, or a later epoch has begun).
3. Each batch is offered once and in order, so a batch that is still being fetched or landed holds
   back nothing but itself: it is the newest.
4. A batch that an offset still needs and that is not staged is an error, never a gap.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_REMEDY = (
    "Start the query with a new checkpoint: it begins at the oldest batch after which every batch "
    "is staged. Events that have landed are in the event table. Keep batches longer for the next "
    "time: `keep_for` and `keep_batches` of the task that lands."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Offset:
    """The last batch that a query has read.

    :param staging_id: id of the staging area.
    :param epoch: empty: no epoch had begun.
    :param batch_number: within the epoch; 0: none of it has been read.
    """

    staging_id: str
    epoch: str
    batch_number: int

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Offset:
        """Read the offset of a checkpoint.

        :raises ConfigurationError: the checkpoint is of another source.
        """
        try:
            return cls(
                staging_id=str(value["staging_id"]),
                epoch=str(value["epoch"]),
                batch_number=int(value["batch_number"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(
                f"The checkpoint's offset {value!r} is not one of the source sfevents. Give the "
                "query a checkpoint of its own."
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedEpoch:
    """Batches of one epoch, by number.

    :param first: number of its first batch.
    :param staged: batches with a manifest.
    :param landed: batches with a receipt.
    :param swept: the highest number that was swept; 0: none.
    """

    name: str
    first: int = 1
    staged: frozenset[int] = frozenset()
    landed: frozenset[int] = frozenset()
    swept: int = 0

    @property
    def last(self) -> int:
        """Number of the newest staged batch; 0: none."""
        return max(self.staged, default=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedTopic:
    """Batches of a topic's folder.

    :param folder: its path, for messages.
    :param epochs: oldest first.
    :param unordered: epochs with batches that name no previous epoch, if there are several.
    """

    staging_id: str
    folder: str
    epochs: tuple[StagedEpoch, ...]
    unordered: tuple[str, ...] = ()

    def offset(self, epoch: str, batch_number: int) -> Offset:
        return Offset(staging_id=self.staging_id, epoch=epoch, batch_number=batch_number)


def first_offset(topic: StagedTopic) -> Offset:
    """Return the offset of a new query: before the oldest batch after which every batch is staged.

    :raises StagingError: the order of the epochs is not known.
    """
    batches = staged(topic)
    if not topic.epochs:
        return topic.offset("", 0)
    places = {batch: place for place, batch in enumerate(batches)}
    place = 0
    while place < len(batches):
        start = replace(batches[place], batch_number=batches[place].batch_number - 1)
        try:
            for batch in following(topic, start):
                place = places[batch] + 1
        except StagingError:
            if topic.unordered:
                raise
            # The loop has moved `place` behind the last batch before the gap.
        else:
            return start
    newest = topic.epochs[-1]
    return topic.offset(newest.name, max(newest.last, newest.swept, newest.first - 1))


def next_offset(topic: StagedTopic, after: Offset, max_batches: int) -> Offset:
    """Return the end of the next micro-batch; `after` itself if no batch is offered.

    :param max_batches: most batches of a micro-batch.
    :raises StagingError: the very next batch is not staged any more.
    """
    end = after
    try:
        for batch in islice(following(topic, after), max_batches):
            end = batch
    except StagingError:
        if end == after:
            raise
    return end


def between(topic: StagedTopic, start: Offset, end: Offset) -> tuple[Offset, ...]:
    """Return the batches after `start`, up to and including `end`.

    :raises StagingError: one of them is not staged any more.
    """
    if start == end:
        return ()
    found: list[Offset] = []
    for batch in following(topic, start):
        found.append(batch)
        if batch == end:
            return tuple(found)
    raise StagingError(
        f"Batch {end.epoch}-{end.batch_number}, at which a micro-batch of the query ends, is not "
        f"staged in {topic.folder} any more. {_REMEDY}"
    )


def offered(topic: StagedTopic) -> tuple[Offset, ...]:
    """Return all batches whose form is settled, in order, whatever is missing between them."""
    places = {epoch.name: place for place, epoch in enumerate(topic.epochs)}
    return tuple(
        batch
        for batch in staged(topic)
        if _is_settled(topic, places[batch.epoch], batch.batch_number)
    )


def following(topic: StagedTopic, after: Offset) -> Iterator[Offset]:
    """Yield the offered batches after an offset, in order.

    :raises StagingError: a batch that has to come next is not staged, or `after` is not of this
        staging area.
    """
    place, number = _place_after(topic, after)
    while place < len(topic.epochs):
        epoch = topic.epochs[place]
        if number in epoch.staged:
            if not _is_settled(topic, place, number):
                return
            yield topic.offset(epoch.name, number)
            number += 1
        elif number <= epoch.swept or number < epoch.last:
            raise StagingError(_missing(topic, epoch, number))
        elif place + 1 < len(topic.epochs):
            place += 1
            number = topic.epochs[place].first
        else:
            return


def _is_settled(topic: StagedTopic, place: int, number: int) -> bool:
    epoch = topic.epochs[place]
    return number in epoch.landed or number < epoch.last or place + 1 < len(topic.epochs)


def _place_after(topic: StagedTopic, after: Offset) -> tuple[int, int]:
    """Return the place of an epoch, and the number of the batch that has to come next in it."""
    if after.staging_id != topic.staging_id:
        raise StagingError(
            f"The checkpoint was written for the staging area {after.staging_id!r}, and "
            f"{topic.folder} is of the staging area {topic.staging_id!r}. Read the one of the "
            "checkpoint; or start the query with a new checkpoint."
        )
    if topic.unordered:
        raise StagingError(
            f"The epochs {', '.join(topic.unordered)} in {topic.folder} have no order: none of "
            "them names another one as its previous epoch, because a position was written by hand. "
            "Name it as `previous` in the origin.json of the later one, or remove the folders of "
            "the epochs that are not to be read."
        )
    if not after.epoch:
        return 0, topic.epochs[0].first if topic.epochs else 1
    for place, epoch in enumerate(topic.epochs):
        if epoch.name == after.epoch:
            return place, after.batch_number + 1
    raise StagingError(
        f"Epoch {after.epoch} of the checkpoint has no folder in {topic.folder}: it was removed. "
        f"{_REMEDY}"
    )


def _missing(topic: StagedTopic, epoch: StagedEpoch, number: int) -> str:
    why = (
        "it was swept"
        if number <= epoch.swept
        else "it was staged in another staging area, or removed by hand"
    )
    return (
        f"The next batch of the query, {epoch.name}-{number}, is not in {topic.folder}: {why}. "
        f"{_REMEDY}"
    )


def staged(topic: StagedTopic) -> Sequence[Offset]:
    """Return all staged batches, oldest first."""
    return [
        topic.offset(epoch.name, number)
        for epoch in topic.epochs
        for number in sorted(epoch.staged)
    ]
