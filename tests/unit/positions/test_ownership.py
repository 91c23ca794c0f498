from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_sfevents.exceptions import PositionConflictError
from airflow_provider_sfevents.positions.ownership import check_org, check_owner
from airflow_provider_sfevents.positions.record import advance
from airflow_provider_sfevents.staging.manifest import Run
from tests.unit.positions.building import FETCH, ORG, URL, batch_after, begun

if TYPE_CHECKING:
    from airflow_provider_sfevents.positions.record import Position

AT = "2026-01-02T00:00:00+00:00"
COMMIT = Run(dag="load", run="run-1", task="commit", try_number=1)


@pytest.mark.parametrize(
    "url", [URL, f"{URL}:443", f"{URL}/", URL.upper().replace("HTTPS", "https")]
)
def test_the_same_org_is_recognised(url: str) -> None:
    """A URL with another port, trailing slash or case is the same instance."""
    check_org(begun(), ORG, url, "here")


@pytest.mark.parametrize(
    ("org", "url"), [("00D2", URL), (ORG, "https://acme--dev.sandbox.my.salesforce.com")]
)
def test_another_org_or_instance_is_refused(org: str, url: str) -> None:
    """A position of another org or instance is refused: its replay ids mean nothing there."""
    with pytest.raises(
        PositionConflictError,
        match=rf"^Variable 'x' is a position in org {ORG} at {URL}, .*{org} at {url}.*`consumer`",
    ):
        check_org(begun(), org, url, "Variable 'x'")


def test_a_second_task_is_told_to_name_its_consumer() -> None:
    """A second task on a position is refused, and asked for a consumer of its own."""
    with pytest.raises(
        PositionConflictError,
        match=r"belongs to task load\.fetch, and load\.other .*`consumer`.*change `owner`",
    ):
        check_owner(begun(), Run(dag="load", task="other"), "Variable 'x'")


@pytest.mark.parametrize(
    ("position", "run"),
    [
        (begun(), FETCH),
        (advance(begun(), batch_after(begun()), AT, COMMIT), FETCH),
        (begun(owner=""), COMMIT),
        (begun(), Run()),
    ],
    ids=["the same", "after the chain's commit", "without an owner", "outside of Airflow"],
)
def test_the_owner_goes_on(position: Position, run: Run) -> None:
    """The fetching task owns the position, whichever task of its chain commits."""
    check_owner(position, replace(run, run="run-9", try_number=3, map_index=4), "here")
