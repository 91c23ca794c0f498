"""Rows of all positions in Airflow's database; a record that is no position is shown as such."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow_provider_sfevents.commands.asset_rows import all_states
from airflow_provider_sfevents.commands.variable_rows import all_variables
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions.record_text import asset_key, variable_key
from airflow_provider_sfevents.positions.stores import read_listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_provider_sfevents.positions.record import Position


def found(consumer: str = "", topic: str = "") -> list[tuple[str, str]]:
    """Return location and text of every record that is named like a position.

    XComs are left out, because there are many for each position.

    :param consumer: with `topic`: only the records whose names begin like those of this position.
    :raises ConfigurationError: no position can have these names.
    """
    if not consumer:
        return [*all_variables(), *all_states()]
    return [*all_variables(variable_key(consumer, topic)), *all_states(asset_key(consumer))]


def rows(
    records: Iterable[tuple[str, str]],
    age_hours: Callable[[Position], float | None],
    *,
    consumer: str | None,
) -> list[dict[str, Any]]:
    """List positions by consumer and topic; a record that is no position comes last.

    :param age_hours: age of a position's replay id, in hours.
    :param consumer: list only its positions, and the records that are no position.
    """
    listed = [_row(where, text, age_hours) for where, text in records]
    wanted = [row for row in listed if consumer in (None, row["consumer"]) or row["problem"]]
    return sorted(wanted, key=lambda row: (bool(row["problem"]), row["consumer"], row["topic"]))


def _row(where: str, text: str, age_hours: Callable[[Position], float | None]) -> dict[str, Any]:
    try:
        position = read_listed(text, where)
    except ConfigurationError as error:
        texts = dict.fromkeys(("consumer", "topic", "org_id"), "")
        unknown = dict.fromkeys(("batch_number", "replay_id", "age_hours", "committed_at", "owner"))
        return {**texts, **unknown, "kept_in": where, "problem": str(error)}
    return {
        "consumer": position.consumer,
        "topic": position.topic,
        "org_id": position.org_id,
        "batch_number": position.batch_number,
        "replay_id": position.replay_id,
        "age_hours": age_hours(position),
        "committed_at": position.committed_at,
        "owner": position.owner,
        "kept_in": where,
        "problem": "",
    }
