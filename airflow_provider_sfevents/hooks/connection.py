"""Client settings from an Airflow connection of type `sfevents`. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Protocol

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.auth.connection_checks import CONNECTION_TIMEOUT
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import (
    SOAP_DEFAULT_VERSION,
    STREAMING_SESSIONS,
    ClientCredentials,
    JwtBearer,
    Login,
    RefreshToken,
    SessionToken,
    Settings,
    SoapLogin,
    UsernamePassword,
    endpoint_from,
)

if TYPE_CHECKING:
    from collections.abc import Callable


class ConnectionLike(Protocol):
    """Fields of an Airflow connection that are read here."""

    conn_id: str
    host: str | None
    login: str | None
    password: str | None
    port: int | None

    @property
    def extra_dejson(self) -> dict[str, Any]: ...


class ConnectionFields:
    """Fields of an Airflow connection, without a `repr`: an Airflow connection's `repr` shows them.

    Rule: no function here binds a field that may hold a secret to a name; see `Secret`.
    """

    def __init__(self, connection: ConnectionLike) -> None:
        self._connection = connection
        self._extra: dict[str, Any] | None = None

    @property
    def conn_id(self) -> str:
        return self._connection.conn_id

    @property
    def host(self) -> str:
        return (self._connection.host or "").strip()

    @property
    def port(self) -> int | None:
        return self._connection.port

    @property
    def login(self) -> str:
        return (self._connection.login or "").strip()

    @property
    def password(self) -> Secret:
        """The password unchanged, with blanks at its ends."""
        return Secret(self._connection.password or "")

    @property
    def app_secret(self) -> Secret:
        """The password of a connection whose login is an app, without the blanks of a paste."""
        return Secret((self._connection.password or "").strip())

    def value(self, key: str) -> Any:
        """Return an extra unchanged."""
        if self._extra is None:
            self._extra = self._connection.extra_dejson
        return self._extra.get(key)

    def text(self, key: str) -> str:
        """Return an extra that is text, without blanks at its ends.

        :raises ConfigurationError: it is no text.
        """
        return self.secret(key).reveal().strip()

    def secret(self, key: str) -> Secret:
        """Return an extra that is text, unchanged.

        :raises ConfigurationError: it is no text.
        """
        if not isinstance(self.value(key), str | None):
            raise ConfigurationError(
                f"extra `{key}` must be text, not {type(self.value(key)).__name__}"
            )
        return Secret(self.value(key) or "")

    def pasted(self, key: str) -> Secret:
        """Return a secret without blanks at its ends.

        :raises ConfigurationError: it is no text.
        """
        return Secret(self.secret(key).reveal().strip())

    def number(self, key: str, default: int) -> int:
        """Return an extra that is a whole number: an int, or text from a form or URI.

        :raises ConfigurationError: it is none.
        """
        value = self.value(key)
        if value in (None, ""):
            return default
        if type(value) is int or (isinstance(value, str) and value.strip().isdecimal()):
            return int(value)
        raise ConfigurationError(f"extra `{key}` must be a whole number, not {value!r}")

    def seconds(self, key: str, default: float | None) -> float | None:
        """Return an extra that is a number of seconds; None if it is `none`.

        :raises ConfigurationError: it is neither.
        """
        value = self.value(key)
        if value in (None, ""):
            return default
        if str(value).strip().lower() == "none":
            return None
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ConfigurationError(
                f"extra `{key}` must be a number of seconds, or none, not {value!r}"
            ) from None

    def flag(self, key: str) -> bool:
        """Return an extra that is yes or no: a bool from the form, text from a connection's URI.

        :raises ConfigurationError: it is neither.
        """
        value = self.value(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        if str(value).lower() in {"true", "1", "yes"}:
            return True
        if str(value).lower() in {"false", "0", "no", ""}:
            return False
        raise ConfigurationError(f"extra `{key}` must be true or false, not {value!r}")


def check_extra(conn_id: str, extra: Secret) -> None:
    """Check that a connection's extra is an object; Airflow treats any other value as an empty one.

    :raises ConfigurationError: it is none; the message shows nothing of it.
    """
    if found := _flaw(extra):
        raise ConfigurationError(
            f"connection {conn_id!r}: its extra is {found}, so nothing of it can be read. Give an "
            'object of fields with values, such as {"auth": "client_credentials"}.'
        )


def _flaw(extra: Secret) -> str:
    """Describe an extra that is no object; empty if it is an object, or missing."""
    if not extra:
        return ""
    try:
        said = json.loads(extra.reveal())
    except ValueError:
        return "no JSON"
    if isinstance(said, dict):
        return ""
    return "no JSON" if said is None else f"JSON, but no object ({type(said).__name__})"


def settings_from(fields: ConnectionFields) -> Settings:
    """Return the client's settings from a connection of type `sfevents`.

    :raises ConfigurationError: the message names the connection, the field and its valid values.
    """
    return settings_with(fields, _login)


def settings_with(
    fields: ConnectionFields,
    login: Callable[[ConnectionFields], Login],
    *,
    takes_proxy: bool = True,
) -> Settings:
    """Return the client's settings, with the login that `login` makes of the fields.

    :param takes_proxy: the extra `proxies` is read; another provider's has a form of its own.
    :raises ConfigurationError: the message names the connection.
    """
    try:
        return Settings(
            login=login(fields),
            endpoint=endpoint_from(fields.text("pubsub_endpoint"), fields.port),
            ca_file=fields.text("ca_file"),
            plaintext=fields.flag("plaintext"),
            allowed_hosts=tuple(fields.text("allowed_hosts").replace(",", " ").split()),
            transport=fields.text("transport"),
            streaming_sessions=fields.number("streaming_sessions", STREAMING_SESSIONS),
            connection_timeout=fields.seconds("connection_timeout", CONNECTION_TIMEOUT),
            answer_timeout=fields.seconds("answer_timeout", None),
            proxy=fields.pasted("proxies") if takes_proxy else Secret(""),
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"connection {fields.conn_id!r}: {error}") from error


def _login(fields: ConnectionFields) -> Login:
    auth = fields.text("auth") or AUTHS[0]
    if auth not in _LOGINS:
        raise ConfigurationError(
            f"unknown login {auth!r} (extra `auth`); choose one of {', '.join(AUTHS)}"
        )
    return _LOGINS[auth](fields)


def _client_credentials(fields: ConnectionFields) -> Login:
    return ClientCredentials(
        login_url=url(fields.host), client_id=fields.login, client_secret=fields.app_secret
    )


def _jwt_bearer(fields: ConnectionFields) -> Login:
    return JwtBearer(
        login_url=url(fields.host),
        client_id=fields.login,
        username=fields.text("username"),
        private_key=pem(fields.secret("private_key")),
        passphrase=fields.pasted("private_key_passphrase"),
        audience=fields.text("jwt_audience"),
    )


def _refresh_token(fields: ConnectionFields) -> Login:
    return RefreshToken(
        login_url=url(fields.host),
        client_id=fields.login,
        client_secret=fields.app_secret,
        refresh_token=fields.pasted("refresh_token"),
    )


def _password(fields: ConnectionFields) -> Login:
    return UsernamePassword(
        login_url=url(fields.host),
        client_id=fields.login,
        client_secret=fields.app_secret,
        username=fields.text("username"),
        password=fields.secret("user_password"),
        security_token=fields.pasted("security_token"),
    )


def _soap(fields: ConnectionFields) -> Login:
    return SoapLogin(
        login_url=url(fields.host),
        username=fields.login,
        password=fields.password,
        security_token=fields.pasted("security_token"),
        api_version=fields.text("api_version") or SOAP_DEFAULT_VERSION,
    )


def _session(fields: ConnectionFields) -> Login:
    return SessionToken(
        token=fields.pasted("session_token"),
        instance_url=url(fields.text("instance_url") or fields.host),
        org_id=fields.text("org_id"),
    )


_LOGINS: dict[str, Callable[[ConnectionFields], Login]] = {
    "client_credentials": _client_credentials,
    "jwt_bearer": _jwt_bearer,
    "refresh_token": _refresh_token,
    "password": _password,
    "soap": _soap,
    "session": _session,
}
AUTHS = tuple(_LOGINS)
"""Values of the extra `auth`; the first one is the default."""


def pem(key: Secret) -> Secret:
    r"""Restore the line breaks of a PEM, which forms and environments turn into spaces or `\n`."""
    text = key.reveal().replace("\\n", "\n").strip()
    if "\n" in text or not text.startswith("-----BEGIN"):
        return Secret(text)
    head, _, rest = text[len("-----BEGIN") :].partition("-----")
    body, _, tail = rest.partition("-----END")
    return Secret("\n".join((f"-----BEGIN{head}-----", *body.split(), f"-----END{tail}", "")))


def url(host: str) -> str:
    """Return a host with its scheme; users paste it without one."""
    return f"https://{host}" if host and "://" not in host else host
