"""The user's own authorities, read once for login and API alike."""

from __future__ import annotations

import ssl
from pathlib import Path

from airflow_provider_sfevents.exceptions import ConfigurationError


def read_ca_file(path: str) -> str:
    """The file's text. :raises ConfigurationError: when it is unreadable or holds no certificate.

    Checked here because gRPC says no more of a bad file than that a handshaker could not be created.
    """
    try:
        text = Path(path).read_text(encoding="ascii")
        ssl.create_default_context(cadata=text)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigurationError(
            f"The CA file {path!r} cannot be used: {error}. Give a readable PEM file of certificates."
        ) from error
    return text
