"""`airflow sfevents limits`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.utils.cli import suppress_logs_and_warning
from airflow.utils.providers_configuration_loader import providers_configuration_loaded

from airflow_provider_sfevents.commands.output import command, show_rows
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.pubsub.rest.org_limits import EVENT_ALLOWANCES

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping

    from airflow_provider_sfevents.pubsub.rest.org_limits import Allowance


@suppress_logs_and_warning
@providers_configuration_loaded
@command
def show(args: Namespace) -> None:
    """Show the org's allowances."""
    found = SfEventsHook(args.conn_id).limits()
    show_rows(rows(found, every=args.all), args.output)


def rows(found: Mapping[str, Allowance], *, every: bool) -> list[dict[str, Any]]:
    """Return rows of the event allowances, in the order of their use, then of others by name.

    :param every: include the others.
    """
    names = [name for name in EVENT_ALLOWANCES if name in found]
    if every:
        names += sorted(found.keys() - EVENT_ALLOWANCES.keys())
    return [
        {
            "limit": name,
            "most": found[name].most,
            "left": found[name].left,
            "counts": EVENT_ALLOWANCES.get(name),
        }
        for name in names
    ]
