"""Position stores as the command line reaches them: in Airflow's database itself.

Tasks go through Airflow's API server (`positions`); a command has no such way (`airflow.sdk.Variable.set` needs a task's supervisor),
and does as `airflow variables set` does. What is written here is what a task reads there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow_provider_sfevents.commands.asset_rows import AssetRow, asset_orgs
from airflow_provider_sfevents.commands.variable_rows import VariableRow
from airflow_provider_sfevents.commands.xcom_rows import XComRows, xcom_orgs
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions.opening import check_spec
from airflow_provider_sfevents.positions.stores import PositionStore, open_own

if TYPE_CHECKING:
    from collections.abc import Callable


class ReachedStore(PositionStore, Protocol):
    """A position's place that can be emptied."""

    def delete(self) -> None:
        """Nothing happens where there is nothing.

        :raises SfEventsError: it could not be deleted.
        """


def open_row(spec: str, *, org_id: str, consumer: str, topic: str) -> ReachedStore:
    """The store of one position.

    :param spec: the task's `position_store`, as far as it can be given on a command line.
    :param org_id: empty where it is not known; a Variable and a user's own store do without.
    :raises ConfigurationError: there is no such store.
    """
    check_spec(spec)
    match spec:
        case "variable" | "managed":
            return VariableRow(consumer, topic)
        case "asset":
            return AssetRow(org_id, consumer, topic)
        case "xcom":
            return XComRows(org_id, consumer, topic)
        case _:
            return open_own(spec, consumer=consumer, topic=topic)


def orgs_in(spec: str, consumer: str, topic: str) -> set[str]:
    """Orgs of which this store has a position; empty for stores that keep one whatever the org."""
    ask: dict[str, Callable[[str, str], set[str]]] = {
        "asset": asset_orgs,
        "xcom": xcom_orgs,
    }
    return ask[spec](consumer, topic) if spec in ask else set()


def only_org(orgs: set[str], where: str) -> str:
    """The org, empty where there is none.

    :param where: they were found; for the message.
    :raises ConfigurationError: there are several.
    """
    if len(orgs) > 1:
        raise ConfigurationError(
            f"{where} has this consumer and topic for {len(orgs)} orgs: {', '.join(sorted(orgs))}. Say which by the connection that leads "
            "there: `--conn-id`."
        )
    return next(iter(orgs), "")
