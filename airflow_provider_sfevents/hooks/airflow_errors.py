"""Errors between Airflow and this package.

This package's errors become Airflow's: the task fails for good, or Airflow retries it. Airflow's
"connection not found" becomes one of this package's.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.configuration import conf
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowNotFoundException,
    ErrorType,
)

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    SfEventsError,
    TransportError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow.sdk import Connection

log = logging.getLogger(__name__)

# A retry changes nothing about these until a person acts; a used-up allowance returns in hours.
NEVER_RETRIED = (ConfigurationError, AuthenticationError, QuotaExceededError)


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Raise this package's errors as Airflow's errors.

    `AirflowFailException` ends the task's tries; every other error is retried. The message holds
    all that a user needs. The original traceback is logged at level DEBUG only, because Airflow
    would print the whole chain before the message.

    :raises AirflowFailException: a retry cannot help (`NEVER_RETRIED`).
    :raises AirflowException: any other error of this package.
    """
    try:
        yield
    except SfEventsError as error:
        log.debug("Original traceback:", exc_info=error)
        ending = AirflowFailException if isinstance(error, NEVER_RETRIED) else AirflowException
        raise ending(str(error)) from None


def found_connection(conn_id: str, kind: str, remedy: str) -> Connection:
    """Return a connection.

    :param kind: begins the message if there is none, and the remedy ends it.
    :raises ConfigurationError: there is none.
    :raises TransportError: Airflow cannot read it just now.
    """
    try:
        return BaseHook.get_connection(conn_id)
    except AirflowNotFoundException as error:
        backends = (("workers", "secrets_backend"), ("secrets", "backend"))
        own = next(filter(None, (conf.get(*option, fallback="") for option in backends)), "")
        raise not_found(f"{kind} {conn_id!r}", remedy, _answer(conn_id), own) from error


def not_found(
    what: str, remedy: str, answer: str, backend: str
) -> ConfigurationError | TransportError:
    """Tell a connection that is missing from one that cannot be read just now.

    Airflow 3.3 takes every failure of its API server but a refusal (`ExecutionAPISecretsBackend`),
    and every exception of a secrets backend (`_get_connection`), for a connection that is missing.

    :param answer: of the API server about the connection; empty if there is none to ask.
    :param backend: class of the user's own secrets backend; empty for none.
    """
    if answer not in {"", ErrorType.CONNECTION_NOT_FOUND.value}:
        return TransportError(
            f"{what} could not be read ({answer}). Nothing was fetched; try again when Airflow's "
            "API server answers."
        )
    if backend:
        return TransportError(
            f"{what} is not defined, or {backend} could not be read just now; Airflow's log at "
            f"level DEBUG has its error. {remedy}"
        )
    return ConfigurationError(f"{what} is not defined. {remedy}")


def _answer(conn_id: str) -> str:
    """Ask the API server for a connection again; empty outside of a task and a trigger."""
    from airflow.sdk.execution_time import task_runner
    from airflow.sdk.execution_time.comms import ErrorResponse, GetConnection

    supervisor = getattr(task_runner, "SUPERVISOR_COMMS", None)
    if supervisor is None:
        return ""
    try:
        answer = supervisor.send(GetConnection(conn_id=conn_id))
    except Exception as error:  # noqa: BLE001 - any failure means that there is no answer
        return type(error).__name__
    return str(answer.error.value if isinstance(answer, ErrorResponse) else "it can be read again")
