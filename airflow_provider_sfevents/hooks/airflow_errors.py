"""Map this package's errors to Airflow's: fail the task for good, or let Airflow retry it."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceededError,
    SfEventsError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

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
