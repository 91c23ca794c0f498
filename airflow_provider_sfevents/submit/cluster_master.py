"""Whether a standalone cluster's master is there. Spark itself tries for a minute, and says so in a stack trace."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import TransportError
from airflow_provider_sfevents.submit.deploy_modes import master_addresses

if TYPE_CHECKING:
    from collections.abc import Callable

ANSWER_SECONDS = 10.0


def check_answers(master: str, connect: Callable[[str, int], None] | None = None) -> None:
    """Make sure that one of the masters in `spark://a:7077,b:7077` takes connections; of other kinds of Spark nothing is asked.

    :param connect: opens and closes a connection to a host and port.
    :raises TransportError: none does.
    """
    if not master.startswith("spark://"):
        return
    connect = connect or _connect
    said = []
    for host, port in master_addresses(master):
        try:
            connect(host, port)
        except OSError as error:
            said.append(f"{host}:{port}: {error.strerror or error}")
        else:
            return
    raise TransportError(
        f"Spark's master at {master} does not answer ({'; '.join(said)}). Nothing was fetched. Start it, or let the Spark connection name "
        "the one that is running; then run the task again."
    )


def _connect(host: str, port: int) -> None:
    with socket.create_connection((host, port), timeout=ANSWER_SECONDS):
        pass
