"""Writes the allowance that a task has read to an Airflow Variable, for the page."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from airflow.sdk import Variable

from airflow_provider_sfevents.positions.seen_allowance import SeenAllowance, allowance_key
from airflow_provider_sfevents.pubsub.rest.org_limits import DELIVERIES

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.rest.org_limits import Allowance

log = logging.getLogger(__name__)


def keep_allowance(org_id: str, found: Allowance) -> None:
    """Keep an allowance. Blocks. Outside a task, or without an answer, nothing is kept."""
    if found.name != DELIVERIES:
        return
    at = datetime.now(UTC).isoformat()
    seen = SeenAllowance(name=found.name, most=found.most, left=found.left, at=at)
    try:
        Variable.set(
            allowance_key(org_id),
            seen.to_json(),
            description=f"Deliveries that org {org_id} had left (sfevents)",
        )
    except Exception as error:  # noqa: BLE001 - the fetch must go on
        log.debug("The allowance of org %s could not be kept: %s", org_id, error)
