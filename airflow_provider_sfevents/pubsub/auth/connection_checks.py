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


def check_timeout(name: str, seconds: float | None) -> None:
    """Check a timeout of the connection; None is no limit.

    :raises ConfigurationError: it is no positive, finite number.
    """
    if seconds is not None and not 0 < seconds < math.inf:
        otherwise = "None for no limit" if name == "connection_timeout" else "leave it out"
        raise ConfigurationError(f"{name} is {seconds!r}. Give seconds above 0, or {otherwise}.")


def check_proxy(proxy: Secret) -> None:
    """Check the URL of a proxy; the error shows nothing of it, because it may hold a password.

    :raises ConfigurationError: it is not the URL of an HTTP proxy.
    """
    if proxy and not _PROXY.fullmatch(proxy.reveal()):
        raise ConfigurationError(
            "The proxy is no URL of an HTTP proxy. Give it as http://proxy.acme.example:3128, or "
            "http://<user>:<password>@proxy.acme.example:3128, with special characters encoded."
        )


def check_token(token: Secret) -> None:
    """Check a session token.

    :raises ConfigurationError: it could be no value of an HTTP header.
    """
    if not (token.reveal().isascii() and token.reveal().isprintable()):
        raise ConfigurationError(
            "The session token holds a line break, or a letter that no token has. Copy it again."
        )
