"""Which of our errors Airflow may retry. The one place where they become Airflow's."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

from airflow.sdk.exceptions import AirflowException, AirflowFailException

from airflow_provider_sfevents.exceptions import (
    AuthenticationError,
    ConfigurationError,
    QuotaExceeded,
    SfEventsError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

log = logging.getLogger(__name__)

# Trying again changes nothing about these until somebody acts, and an allowance that is used up comes back in hours.
NEVER_RETRIED = (ConfigurationError, AuthenticationError, QuotaExceeded)


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Ours out of the block become Airflow's: `AirflowFailException` ends the task's tries, the rest is retried.

    The message says all that a user needs; where in our code it was found out is for the log at level DEBUG, since Airflow
    would print the whole chain before the message.
    """
    try:
        yield
    except SfEventsError as error:
        log.debug("Where this was found out:", exc_info=error)
        ending = AirflowFailException if isinstance(error, NEVER_RETRIED) else AirflowException
        raise ending(str(error)) from None
