"""Which of our errors Airflow may retry. The one place where they become Airflow's."""

from __future__ import annotations

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

# Trying again changes nothing about these until somebody acts, and an allowance that is used up comes back in hours.
NEVER_RETRIED = (ConfigurationError, AuthenticationError, QuotaExceeded)


@contextmanager
def airflow_failures() -> Iterator[None]:
    """Ours out of the block become Airflow's: `AirflowFailException` ends the task's tries, the rest is retried."""
    try:
        yield
    except NEVER_RETRIED as error:
        raise AirflowFailException(str(error)) from error
    except SfEventsError as error:
        raise AirflowException(str(error)) from error
