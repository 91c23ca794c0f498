"""Client settings from a connection of Airflow's own type `salesforce`.

The login follows from the fields that are filled in, in the order in which that provider's hook
looks: security token, organization id, consumer secret, private key. Extras may carry the prefix
`extra__salesforce__` of older Airflow versions.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.hooks.connection import pem, settings_with, url
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.settings import (
    SOAP_DEFAULT_VERSION,
    ClientCredentials,
    JwtBearer,
    Login,
    SoapLogin,
    UsernamePassword,
)

if TYPE_CHECKING:
    from airflow_provider_sfevents.hooks.connection import ConnectionFields
    from airflow_provider_sfevents.pubsub.auth.settings import Settings

log = logging.getLogger(__name__)

STOCK_TYPE = "salesforce"
_PREFIX = "extra__salesforce__"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filled:
    """Fields of the stock form that are filled in."""

    fields: ConnectionFields

    def __getitem__(self, name: str) -> str:
        """Return an extra as text; do not bind it to a name if it may be a secret, see `Secret`."""
        value = self.fields.value(name)
        if value is None:
            value = self.fields.value(_PREFIX + name)
        return "" if value is None else str(value).strip()

    def secret(self, name: str) -> Secret:
        return Secret(self[name])

    @property
    def consumer_key(self) -> str:
        """The form's Consumer Key; or its Client ID, if that alone is beside a key or secret."""
        alone = self["client_id"] if self.has_key or self["consumer_secret"] else ""
        return self["consumer_key"] or alone

    @property
    def has_key(self) -> bool:
        return bool(self["private_key"] or self["private_key_file_path"])

    @property
    def login_url(self) -> str:
        """Login URL: by the form's Domain (`test`, `acme.my`), or instance, or the general host."""
        if domain := self["domain"]:
            return url(
                domain if "." in domain and domain.endswith(".com") else f"{domain}.salesforce.com"
            )
        return url(self["instance_url"] or self["instance"] or "login.salesforce.com")


def stock_settings(fields: ConnectionFields) -> Settings:
    """Return the client's settings from a connection of type `salesforce`.

    :raises ConfigurationError: the message names the connection and the fields that each login
        needs.
    """
    return settings_with(fields, _login, takes_proxy=False)


def _login(fields: ConnectionFields) -> Login:
    filled = _Filled(fields=fields)
    if filled["proxies"]:
        log.warning(
            "The proxies of connection %r are ignored; set the environment variables HTTPS_PROXY "
            "and NO_PROXY of the worker instead.",
            fields.conn_id,
        )
    if fields.login and fields.password:
        if filled["security_token"] or filled["organization_id"]:
            return _soap(filled)
        if filled.consumer_key and filled["consumer_secret"]:
            return _password(filled)
    if fields.login and filled.consumer_key and filled.has_key:
        return _jwt_bearer(filled)
    if filled.consumer_key and filled["consumer_secret"]:
        return _client_credentials(filled)
    raise ConfigurationError(
        "of type `salesforce`, and its fields make no login. Fill in consumer_key, consumer_secret "
        "and domain (client credentials); or user name, consumer_key and private_key (JWT bearer); "
        "or user name, password, consumer_key and consumer_secret; or user name, password and "
        "security_token. A session id that is passed to that hook in code belongs in a connection "
        "of type `sfevents`."
    )


def _soap(filled: _Filled) -> SoapLogin:
    return SoapLogin(
        login_url=filled.login_url,
        username=filled.fields.login,
        password=filled.fields.password,
        security_token=filled.secret("security_token"),
        api_version=filled["version"] or SOAP_DEFAULT_VERSION,
    )


def _password(filled: _Filled) -> UsernamePassword:
    return UsernamePassword(
        login_url=filled.login_url,
        client_id=filled.consumer_key,
        client_secret=filled.secret("consumer_secret"),
        username=filled.fields.login,
        password=filled.fields.password,
    )


def _jwt_bearer(filled: _Filled) -> JwtBearer:
    return JwtBearer(
        login_url=filled.login_url,
        client_id=filled.consumer_key,
        username=filled.fields.login,
        private_key=pem(filled.secret("private_key") or _read_key(filled["private_key_file_path"])),
    )


def _client_credentials(filled: _Filled) -> ClientCredentials:
    return ClientCredentials(
        login_url=filled.login_url,
        client_id=filled.consumer_key,
        client_secret=filled.secret("consumer_secret"),
    )


def _read_key(path: str) -> Secret:
    try:
        return Secret(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        raise ConfigurationError(
            "The private key file of the connection (private_key_file_path) cannot be read on this "
            f"machine: {reason}."
        ) from None
