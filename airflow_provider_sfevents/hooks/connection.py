"""An Airflow connection of type `sfevents`, made into the client's settings. Values in, values out."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.settings import (
    DEFAULT_ENDPOINT,
    SOAP_DEFAULT_VERSION,
    ClientCredentials,
    JwtBearer,
    Login,
    RefreshToken,
    SessionToken,
    Settings,
    SoapLogin,
    UsernamePassword,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class ConnectionLike(Protocol):
    """What we read of an Airflow connection."""

    conn_id: str
    host: str | None
    login: str | None
    password: str | None

    @property
    def extra_dejson(self) -> dict[str, Any]: ...


def check_extra(conn_id: str, extra: str | None) -> None:
    """Holds a connection's extra against what it must be; Airflow takes what is no JSON for nothing, and the login for another one.

    :raises ConfigurationError: it is no object of fields; the message holds nothing of it.
    """
    if not extra:
        return
    try:
        said = json.loads(extra)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        found = "no JSON" if said is None else f"JSON, but no object ({type(said).__name__})"
        raise ConfigurationError(
            f"connection {conn_id!r}: its extra is {found}, so nothing of it can be read. Give an object of fields with values, such as "
            '{"auth": "client_credentials"}.'
        )


def settings_from(connection: ConnectionLike) -> Settings:
    """The client's settings, from a connection of type `sfevents`.

    :raises ConfigurationError: naming the connection, the field and what belongs there.
    """
    return settings_with(connection, _login)


def settings_with(
    connection: ConnectionLike, login: Callable[[ConnectionLike, dict[str, Any]], Login]
) -> Settings:
    """The client's settings, with the login that `login` makes of connection and extras.

    :raises ConfigurationError: naming the connection.
    """
    try:
        extra = connection.extra_dejson
        return Settings(
            login=login(connection, extra),
            endpoint=_text(extra, "pubsub_endpoint") or DEFAULT_ENDPOINT,
            ca_file=_text(extra, "ca_file"),
            plaintext=_flag(extra, "plaintext"),
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"connection {connection.conn_id!r}: {error}") from error


def _login(connection: ConnectionLike, extra: dict[str, Any]) -> Login:
    auth = _text(extra, "auth") or AUTHS[0]
    if auth not in _LOGINS:
        raise ConfigurationError(
            f"unknown login {auth!r} (extra `auth`); choose one of {', '.join(AUTHS)}"
        )
    return _LOGINS[auth](connection, extra)


def _client_credentials(connection: ConnectionLike, _: dict[str, Any]) -> Login:
    return ClientCredentials(
        login_url=url(connection.host),
        client_id=_stripped(connection.login),
        client_secret=_stripped(connection.password),
    )


def _jwt_bearer(connection: ConnectionLike, extra: dict[str, Any]) -> Login:
    return JwtBearer(
        login_url=url(connection.host),
        client_id=_stripped(connection.login),
        username=_text(extra, "username"),
        private_key=pem(_text(extra, "private_key")),
        passphrase=_text(extra, "private_key_passphrase"),
        audience=_text(extra, "jwt_audience"),
    )


def _refresh_token(connection: ConnectionLike, extra: dict[str, Any]) -> Login:
    return RefreshToken(
        login_url=url(connection.host),
        client_id=_stripped(connection.login),
        client_secret=_stripped(connection.password),
        refresh_token=_text(extra, "refresh_token"),
    )


def _password(connection: ConnectionLike, extra: dict[str, Any]) -> Login:
    return UsernamePassword(
        login_url=url(connection.host),
        client_id=_stripped(connection.login),
        client_secret=_stripped(connection.password),
        username=_text(extra, "username"),
        password=_text(extra, "user_password", strip=False),
        security_token=_text(extra, "security_token"),
    )


def _soap(connection: ConnectionLike, extra: dict[str, Any]) -> Login:
    return SoapLogin(
        login_url=url(connection.host),
        username=_stripped(connection.login),
        password=connection.password or "",
        security_token=_text(extra, "security_token"),
        api_version=_text(extra, "api_version") or SOAP_DEFAULT_VERSION,
    )


def _session(connection: ConnectionLike, extra: dict[str, Any]) -> Login:
    return SessionToken(
        token=_text(extra, "session_token"),
        instance_url=url(_text(extra, "instance_url") or connection.host),
        org_id=_text(extra, "org_id"),
    )


_LOGINS: dict[str, Callable[[ConnectionLike, dict[str, Any]], Login]] = {
    "client_credentials": _client_credentials,
    "jwt_bearer": _jwt_bearer,
    "refresh_token": _refresh_token,
    "password": _password,
    "soap": _soap,
    "session": _session,
}
AUTHS = tuple(_LOGINS)
"""What the extra `auth` may say; the first one is the default."""


def pem(text: str) -> str:
    r"""A PEM whose line breaks a form or an environment variable turned into spaces or `\n`, made whole again."""
    text = text.replace("\\n", "\n").strip()
    if "\n" in text or not text.startswith("-----BEGIN"):
        return text
    head, _, rest = text[len("-----BEGIN") :].partition("-----")
    body, _, tail = rest.partition("-----END")
    return "\n".join((f"-----BEGIN{head}-----", *body.split(), f"-----END{tail}", ""))


def url(host: str | None) -> str:
    """A host as users paste it, with its scheme."""
    host = _stripped(host)
    return f"https://{host}" if host and "://" not in host else host


def _stripped(value: str | None) -> str:
    return (value or "").strip()


def _text(extra: dict[str, Any], key: str, *, strip: bool = True) -> str:
    value = extra.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ConfigurationError(f"extra `{key}` must be text, not {type(value).__name__}")
    return value.strip() if strip else value


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
