"""An Airflow connection of type `sfevents`, made into the client's settings. Values in, values out."""

from __future__ import annotations

from typing import Any, Protocol

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.settings import (
    DEFAULT_ENDPOINT,
    ClientCredentials,
    JwtBearer,
    SessionToken,
    Settings,
)

AUTHS = ("client_credentials", "jwt_bearer", "session")


class ConnectionLike(Protocol):
    """What we read of an Airflow connection."""

    conn_id: str
    host: str | None
    login: str | None
    password: str | None

    @property
    def extra_dejson(self) -> dict[str, Any]: ...


def settings_from(connection: ConnectionLike) -> Settings:
    """The client's settings.

    :raises ConfigurationError: naming the connection, the field and what belongs there.
    """
    extra = connection.extra_dejson
    try:
        return Settings(
            login=_login(connection, extra),
            endpoint=_text(extra, "pubsub_endpoint") or DEFAULT_ENDPOINT,
            ca_file=_text(extra, "ca_file"),
            plaintext=_flag(extra, "plaintext"),
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"connection {connection.conn_id!r}: {error}") from error


def _login(
    connection: ConnectionLike, extra: dict[str, Any]
) -> ClientCredentials | JwtBearer | SessionToken:
    auth = _text(extra, "auth") or AUTHS[0]
    if auth == "client_credentials":
        return ClientCredentials(
            login_url=_url(connection.host),
            client_id=_stripped(connection.login),
            client_secret=_stripped(connection.password),
        )
    if auth == "jwt_bearer":
        return JwtBearer(
            login_url=_url(connection.host),
            client_id=_stripped(connection.login),
            username=_text(extra, "username"),
            private_key=pem(_text(extra, "private_key")),
            passphrase=_text(extra, "private_key_passphrase"),
            audience=_text(extra, "jwt_audience"),
        )
    if auth == "session":
        return SessionToken(
            token=_text(extra, "session_token"),
            instance_url=_url(_text(extra, "instance_url") or connection.host),
            org_id=_text(extra, "org_id"),
        )
    raise ConfigurationError(
        f"unknown login {auth!r} (extra `auth`); choose one of {', '.join(AUTHS)}"
    )


def pem(text: str) -> str:
    r"""A PEM whose line breaks a form or an environment variable turned into spaces or `\n`, made whole again."""
    text = text.replace("\\n", "\n").strip()
    if "\n" in text or not text.startswith("-----BEGIN"):
        return text
    head, _, rest = text[len("-----BEGIN") :].partition("-----")
    body, _, tail = rest.partition("-----END")
    return "\n".join((f"-----BEGIN{head}-----", *body.split(), f"-----END{tail}", ""))


def _url(host: str | None) -> str:
    host = _stripped(host)
    return f"https://{host}" if host and "://" not in host else host


def _stripped(value: str | None) -> str:
    return (value or "").strip()


def _text(extra: dict[str, Any], key: str) -> str:
    value = extra.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ConfigurationError(f"extra `{key}` must be text, not {type(value).__name__}")
    return value.strip()


def _flag(extra: dict[str, Any], key: str) -> bool:
    """A checkbox of the form gives a bool; a connection from a URI gives text."""
    value = extra.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    if str(value).lower() in {"true", "1", "yes"}:
        return True
    if str(value).lower() in {"false", "0", "no", ""}:
        return False
    raise ConfigurationError(f"extra `{key}` must be true or false, not {value!r}")
