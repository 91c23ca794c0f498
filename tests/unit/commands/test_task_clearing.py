from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_sfevents.commands.tasks.task_clearing import choose, refuse
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.staging.lease_holder import LeaseState
from tests.unit.commands.building import landed, nothing, staged
from tests.unit.positions.building import begun
from tests.unit.staging.building import elsewhere

AT = begun()
PAST = replace(AT, batch_number=1, replay_id="0a")

INSTANCES = dict.fromkeys(
    [("fetch", 0), ("fetch", 1), ("spark", 0), ("spark", 1), ("report", -1), ("other", -1)]
)


def test_a_mapped_chain_is_cleared_at_its_own_index() -> None:
    """Of mapped tasks the instance of the same index is cleared, of others the only one."""
    assert choose(("fetch", 1), ["report", "spark"], INSTANCES) == (
        ("fetch", 1),
        ("report", -1),
        ("spark", 1),
    )


def test_a_task_mapped_otherwise_is_cleared_whole() -> None:
    """Without an instance of the fetch's index all instances of a task are cleared."""
    instances = dict.fromkeys([("fetch", -1), ("spark", 1), ("spark", 0)])
    assert choose(("fetch", -1), ["spark"], instances) == (
        ("fetch", -1),
        ("spark", 0),
        ("spark", 1),
    )


def test_what_has_been_committed_or_left_behind_can_be_landed_again() -> None:
    """Committed batches, and those of another or lost epoch, can be landed again."""
    refuse(landed(AT), PAST, "list")
    refuse(staged(AT), replace(PAST, epoch="e2"), "list")
    refuse(landed(AT), None, "list")


def test_what_cannot_be_landed_again_is_refused_with_what_to_do() -> None:
    """A batch that is not staged, held or uncommitted is refused with the remedy."""
    with pytest.raises(ConfigurationError, match=r"e1-1 is not staged.*are kept: list"):
        refuse(nothing(AT), PAST, "list")
    with pytest.raises(ConfigurationError, match=r"held by task load\.fetch of run run-0"):
        refuse(staged(AT, holder=elsewhere(), verdict=LeaseState.WATCH), PAST, "list")
    with pytest.raises(ConfigurationError, match="airflow dags trigger load"):
        refuse(staged(AT), AT, "list")
