"""Certificate authorities that the user names, for login and API alike."""

from __future__ import annotations

import ssl
from pathlib import Path

from airflow_provider_sfevents.exceptions import ConfigurationError


def read_ca_file(path: str) -> str:
    """Return the file's text, checked.

    It is checked here because gRPC's own error for a bad file says only that a handshaker could not
    be created. A file named by mistake may hold a key, so its text gets no name; see `Secret`.

    :raises ConfigurationError: it is unreadable or holds no certificate.
    """
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=_text(path))
        return _text(path)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigurationError(
            f"The CA file {path!r} cannot be used: {error}. Give a readable PEM file of "
            "certificates."
        ) from error


def _text(path: str) -> str:
    return Path(path).read_text(encoding="ascii")
