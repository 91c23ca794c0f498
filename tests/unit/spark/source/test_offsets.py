from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from airflow_provider_sfevents.exceptions import ConfigurationError, StagingError
from airflow_provider_sfevents.spark.source.offsets import (
    Offset,
    StagedEpoch,
    StagedTopic,
    between,
    first_offset,
    next_offset,
    offered,
)


def epoch(name: str, staged: str, *, landed: str | None = None, swept: int = 0) -> StagedEpoch:
    """Make an epoch; numbers are digits of a text, and all staged batches have landed."""
    return StagedEpoch(
        name=name,
        staged=frozenset(map(int, staged)),
        landed=frozenset(map(int, staged if landed is None else landed)),
        swept=swept,
    )


def topic(*epochs: StagedEpoch) -> StagedTopic:
    return StagedTopic(staging_id="a1", folder="/staging/t", epochs=epochs)


def at(name: str, number: int) -> Offset:
    return Offset(staging_id="a1", epoch=name, batch_number=number)


def batches(found: tuple[Offset, ...]) -> list[str]:
    return [f"{one.epoch}{one.batch_number}" for one in found]


def test_an_offset_survives_the_checkpoint() -> None:
    """An offset reads back from the JSON of a checkpoint, and another source's is refused."""
    assert Offset.from_json(at("e", 3).to_json()) == at("e", 3)
    with pytest.raises(ConfigurationError, match=r"\{'partition': 1\} is not one of the source"):
        Offset.from_json({"partition": 1})


@pytest.mark.parametrize(
    ("epochs", "expected"),
    [
        ((), at("", 0)),
        ((epoch("e", ""),), at("e", 0)),
        ((epoch("e", "", swept=4),), at("e", 4)),
        ((epoch("e", "123"),), at("e", 0)),
        ((epoch("e", "345", swept=2),), at("e", 2)),
        ((epoch("e", "1567", swept=4),), at("e", 4)),
        ((epoch("e", "1", swept=4),), at("e", 4)),
        ((epoch("d", "12"), epoch("e", "12")), at("d", 0)),
        ((epoch("d", "12", swept=3), epoch("e", "12")), at("e", 0)),
        ((epoch("d", "12"), epoch("e", "23", swept=1)), at("e", 1)),
        ((epoch("d", "3", swept=2), epoch("e", ""), epoch("f", "1")), at("d", 2)),
    ],
)
def test_a_new_query_begins_after_the_last_gap(
    epochs: tuple[StagedEpoch, ...], expected: Offset
) -> None:
    """A new query begins before the oldest batch after which every batch is staged."""
    assert first_offset(topic(*epochs)) == expected


@pytest.mark.parametrize(
    ("epochs", "after", "expected"),
    [
        pytest.param((epoch("e", "12"),), at("e", 0), at("e", 2), id="landed"),
        pytest.param(
            (epoch("e", "12", landed="1"),), at("e", 0), at("e", 1), id="newest not landed"
        ),
        pytest.param((epoch("e", "12", landed=""),), at("e", 0), at("e", 1), id="position is past"),
        pytest.param(
            (epoch("d", "1", landed=""), epoch("e", "")), at("d", 0), at("d", 1), id="later epoch"
        ),
        pytest.param(
            (epoch("d", "1"), epoch("e", "1")), at("d", 1), at("e", 1), id="into the next epoch"
        ),
        pytest.param(
            (epoch("d", "1"), epoch("e", ""), epoch("f", "1")),
            at("d", 1),
            at("f", 1),
            id="an empty epoch",
        ),
        pytest.param((epoch("e", "1"),), at("e", 1), at("e", 1), id="nothing new"),
        pytest.param((), at("", 0), at("", 0), id="nothing at all"),
        pytest.param((epoch("e", "1"),), at("", 0), at("e", 1), id="the very first"),
        pytest.param((epoch("e", "13"),), at("e", 0), at("e", 1), id="up to a gap"),
    ],
)
def test_settled_batches_are_offered_in_order(
    epochs: tuple[StagedEpoch, ...], after: Offset, expected: Offset
) -> None:
    """A micro-batch ends with the last settled batch before anything that is missing."""
    assert next_offset(topic(*epochs), after, 100) == expected


@pytest.mark.parametrize(
    ("epochs", "after", "reason"),
    [
        pytest.param(
            (epoch("e", "45", swept=3),),
            at("e", 2),
            "next batch of the query, e-3, .* it was swept",
            id="swept",
        ),
        pytest.param(
            (epoch("e", "13"),),
            at("e", 1),
            "e-2, .* staged in another staging area, or removed",
            id="elsewhere",
        ),
        pytest.param(
            (epoch("d", "1", swept=3), epoch("e", "1")),
            at("d", 1),
            "d-2, .* was swept",
            id="the tail of an older epoch",
        ),
        pytest.param(
            (epoch("d", "1"), epoch("e", "2", swept=1)),
            at("d", 1),
            "e-1, .* was swept",
            id="the head of a newer epoch",
        ),
        pytest.param(
            (epoch("e", "23", swept=1),), at("", 0), "e-1, .* was swept", id="the very first"
        ),
        pytest.param(
            (epoch("e", "12"),),
            at("gone", 1),
            "Epoch gone of the checkpoint has no folder",
            id="no such epoch",
        ),
        pytest.param(
            (epoch("e", "12"),),
            replace(at("e", 1), staging_id="b2"),
            "written for the staging area 'b2'",
            id="another area",
        ),
    ],
)
def test_a_missing_batch_is_an_error_with_the_remedy(
    epochs: tuple[StagedEpoch, ...], after: Offset, reason: str
) -> None:
    """A query whose next batch is not staged any more ends with the reason and the remedy."""
    with pytest.raises(StagingError, match=reason) as raised:
        next_offset(topic(*epochs), after, 100)
    assert "new checkpoint" in str(raised.value)


def test_epochs_without_an_order_are_refused() -> None:
    """A stream never guesses the order of epochs; a read of all batches does not need it."""
    unordered = replace(topic(epoch("d", "1"), epoch("e", "1")), unordered=("d", "e"))
    with pytest.raises(StagingError, match=r"The epochs d, e in /staging/t have no order"):
        first_offset(unordered)
    assert batches(offered(unordered)) == ["d1", "e1"]


def test_a_read_takes_all_settled_batches() -> None:
    """A read of all batches skips gaps, and leaves out the batch that is not settled."""
    staged = topic(epoch("d", "14", landed=""), epoch("e", "256", landed="2", swept=1))
    assert batches(offered(staged)) == ["d1", "d4", "e2", "e5"]


def test_a_planned_range_must_still_be_there() -> None:
    """A range of a checkpoint lists its batches, or is an error once one of them was swept."""
    there = topic(epoch("e", "123"))
    assert batches(between(there, at("e", 1), at("e", 3))) == ["e2", "e3"]
    assert between(there, at("e", 2), at("e", 2)) == ()
    with pytest.raises(StagingError, match=r"e-2, .* was swept"):
        between(topic(epoch("e", "3", swept=2)), at("e", 1), at("e", 3))
    with pytest.raises(StagingError, match="Batch e-3, at which a micro-batch of the query ends"):
        between(topic(epoch("e", "12")), at("e", 1), at("e", 3))


steps = st.lists(
    st.sampled_from(["stage", "land", "begin epoch", "read", "restart"]), min_size=5, max_size=60
)


class World:
    """An Airflow that stages one batch after the other, and a query that follows it."""

    def __init__(self, bound: int) -> None:
        self.bound = bound
        self.staged: list[tuple[int, int]] = []
        self.landed: set[tuple[int, int]] = set()
        self.epochs = 1
        self.swept: dict[int, int] = {}
        self.offset: Offset | None = None
        self.read: list[str] = []

    def topic(self) -> StagedTopic:
        return topic(
            *(
                StagedEpoch(
                    name=f"e{number}-",
                    staged=frozenset(n for one, n in self.staged if one == number),
                    landed=frozenset(n for one, n in self.landed if one == number),
                    swept=self.swept.get(number, 0),
                )
                for number in range(1, self.epochs + 1)
            )
        )

    def act(self, step: str) -> None:
        newest = self.staged[-1] if self.staged else (0, 0)
        match step:
            case "stage" if newest in self.landed or newest[0] != self.epochs:
                number = newest[1] + 1 if newest[0] == self.epochs else 1
                self.staged.append((self.epochs, number))
            case "land" if self.staged and newest[0] == self.epochs:
                self.landed.add(newest)
            case "begin epoch":
                self.epochs += 1
            case "read":
                self.follow()

    def follow(self) -> None:
        now = self.topic()
        start = self.offset or first_offset(now)
        self.offset = next_offset(now, start, self.bound)
        found = between(now, start, self.offset)
        assert len(found) <= self.bound
        self.read += batches(found)


@given(steps, st.integers(1, 3))
def test_each_batch_is_read_once_and_in_order(actions: list[str], bound: int) -> None:
    """A query reads every staged batch once, in order, whatever happens between its looks."""
    world = World(bound)
    for action in actions:
        world.act(action)
    world.act("begin epoch")  # so that all batches are settled
    for _ in range(len(world.staged) + 1):
        world.follow()
    assert world.read == [f"e{one}-{number}" for one, number in world.staged]


@given(steps, st.integers(1, 3), st.integers(1, 30))
def test_a_swept_batch_is_never_passed_over(actions: list[str], bound: int, sweeps: int) -> None:
    """A query that has lost a batch to sweeping says so; it never skips the batch."""
    world = World(bound)
    for action in actions:
        world.act(action)
    expected = [f"e{one}-{number}" for one, number in world.staged]
    for one, number in world.staged[:sweeps]:
        world.swept[one] = number
    world.staged = world.staged[sweeps:]
    world.act("begin epoch")
    began = world.offset is not None
    if began and len(world.read) < min(sweeps, len(expected)):
        with pytest.raises(StagingError, match="was swept"):
            world.follow()
        return
    for _ in range(len(expected) + 1):
        world.follow()
    assert world.read == (expected if began else expected[sweeps:])
