"""Position stores for the command line: in Airflow's database itself.

Tasks use Airflow's API server (`positions`). A command cannot (`airflow.sdk.Variable.set` needs a
task's supervisor), so it works as `airflow variables set` does. A task reads what is written here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from airflow_provider_sfevents.commands.asset_rows import AssetRow, asset_orgs
from airflow_provider_sfevents.commands.variable_rows import VariableRow
from airflow_provider_sfevents.commands.xcom_rows import XComRows, xcom_orgs
from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.positions.store_choice import check_spec
from airflow_provider_sfevents.positions.stores import PositionStore, open_own

if TYPE_CHECKING:
    from collections.abc import Callable


class ReachedStore(PositionStore, Protocol):
    """A position store whose record can be deleted."""

    def delete(self) -> None:
        """Delete the record; a missing one is no error.

        :raises SfEventsError: it could not be deleted.
        """


def open_row(spec: str, *, org_id: str, consumer: str, topic: str) -> ReachedStore:
    """Open the store of one position.

    :param spec: the task's `position_store`, as far as it can be given on a command line.
    :param org_id: empty if it is not known; a Variable and a user's own store do not need it.
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
    """Return the orgs for which this store has a position; empty if its keys name no org."""
    ask: dict[str, Callable[[str, str], set[str]]] = {
        "asset": asset_orgs,
        "xcom": xcom_orgs,
    }
    return ask[spec](consumer, topic) if spec in ask else set()


def only_org(orgs: set[str], where: str) -> str:
    """Return the only org; empty if there is none.

    :param where: where the orgs were found; for the message.
    :raises ConfigurationError: there are several.
    """
    if len(orgs) > 1:
        raise ConfigurationError(
            f"{where} has this consumer and topic for {len(orgs)} orgs: {', '.join(sorted(orgs))}. "
            "Choose one by a connection to it: `--conn-id`."
        )
    return next(iter(orgs), "")
