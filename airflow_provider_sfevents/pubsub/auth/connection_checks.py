"""Checks of settings about the connection: the time to come back, and the proxy. Pure."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.auth.secret import Secret

CONNECTION_TIMEOUT = 10.0
_PROXY = re.compile(r"http://([^\s/?#@]+@)?[\w.\[\]:-]+/?")


def check_connection_timeout(seconds: float | None) -> None:
    """Check the time for a lost connection to come back.

    :raises ConfigurationError: it is no positive number.
    """
    if seconds is not None and not seconds > 0:
        raise ConfigurationError(
            f"connection_timeout is {seconds!r}. Give seconds above 0, or None for no limit."
        )


def check_answer_timeout(seconds: float | None) -> None:
    """Check the longest wait for an answer.

    :raises ConfigurationError: it is no positive number.
    """
    if seconds is not None and not 0 < seconds < math.inf:
        raise ConfigurationError(
            f"answer_timeout is {seconds!r}. Give seconds above 0, or leave it out."
        )


def check_proxy(proxy: Secret) -> None:
    """Check the URL of a proxy; the error shows nothing of it, because it may hold a password.

    :raises ConfigurationError: it is none of an HTTP proxy.
    """
    if proxy and not _PROXY.fullmatch(proxy.reveal()):
        raise ConfigurationError(
            "The proxy is no URL of an HTTP proxy. Give it as http://proxy.acme.example:3128, or "
            "http://<user>:<password>@proxy.acme.example:3128, with special characters encoded."
        )
