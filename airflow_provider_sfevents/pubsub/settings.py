"""What the client is told: who logs in, where, and what it may trust. Checked once, here; nothing is opened.

Rules: HTTPS and TLS everywhere, except to this very machine; secrets never show in a `repr`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from airflow_provider_sfevents.exceptions import ConfigurationError

DEFAULT_ENDPOINT = "api.pubsub.salesforce.com:7443"
# The EU host is api.deu.pubsub.salesforce.com; ports 443 and 7443 are the same service.

# SOAP login() answers in these versions alone (Salesforce help 005132110, "SOAP login() retirement"); 57.0 is what its Python sample asks for.
SOAP_DEFAULT_VERSION = "57.0"
SOAP_OLDEST, SOAP_NEWEST = 31, 64
END_OF_SOAP = "Salesforce ends the SOAP login with Summer '27: change the connection to client credentials or JWT bearer before."


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """OAuth client credentials: the app's run-as user reads.

    :param login_url: the org's My Domain; `login.salesforce.com` refuses this flow.
    """

    login_url: str
    client_id: str
    client_secret: str = field(repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "login_url", base_url(self.login_url, "My Domain URL"))
        require(self.client_id, "consumer key", "the app's consumer key")
        require(self.client_secret, "consumer secret", "the app's consumer secret")


@dataclass(frozen=True, slots=True, kw_only=True)
class JwtBearer:
    r"""OAuth JWT bearer: a signed assertion instead of a secret; `username` must be pre-authorised.

    :param private_key: RSA key as PEM; line breaks may be written as `\n`.
    :param audience: `aud` of the assertion; empty: the login URL.
    """

    login_url: str
    client_id: str
    username: str
    private_key: str = field(repr=False)
    passphrase: str = field(default="", repr=False)
    audience: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "login_url", base_url(self.login_url, "My Domain URL"))
        require(self.client_id, "consumer key", "the app's consumer key")
        require(self.username, "user name", "the Salesforce user to act as")
        require(
            self.private_key, "private key", "the RSA key whose certificate the app holds, as PEM"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshToken:
    """OAuth refresh token: the user who consented once reads, until that consent is revoked.

    :param client_secret: empty for an app that does not require one.
    """

    login_url: str
    client_id: str
    refresh_token: str = field(repr=False)
    client_secret: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "login_url", base_url(self.login_url, "My Domain URL"))
        require(self.client_id, "consumer key", "the key of the app that the token was given to")
        require(self.refresh_token, "refresh token", "what the app got when the user consented")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsernamePassword:
    """OAuth username-password; newer orgs refuse it unless an administrator allows it.

    :param security_token: empty where the user's network is trusted by the org.
    """

    login_url: str
    client_id: str
    username: str
    client_secret: str = field(repr=False)
    password: str = field(repr=False)
    security_token: str = field(default="", repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "login_url", base_url(self.login_url, "My Domain URL"))
        require(self.client_id, "consumer key", "the app's consumer key")
        require(self.client_secret, "consumer secret", "the app's consumer secret")
        require(self.username, "user name", "the Salesforce user to act as")
        require(self.password, "user password", "the Salesforce user's own password")


@dataclass(frozen=True, slots=True, kw_only=True)
class SoapLogin:
    """User name and password without an app. Salesforce ends this login with Summer '27, and new orgs have it switched off.

    :param security_token: empty where the user's network is trusted by the org.
    :param api_version: 31.0 to 64.0; login() is absent from later ones.
    """

    login_url: str
    username: str
    password: str = field(repr=False)
    security_token: str = field(default="", repr=False)
    api_version: str = SOAP_DEFAULT_VERSION

    def __post_init__(self) -> None:
        object.__setattr__(self, "login_url", base_url(self.login_url, "My Domain URL"))
        object.__setattr__(self, "api_version", _soap_version(self.api_version))
        require(self.username, "user name", "the Salesforce user to act as")
        require(self.password, "password", "the Salesforce user's own password")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionToken:
    """A session somebody else obtained. It cannot be renewed here.

    :param org_id: empty: taken from the token, else asked of the org.
    """

    token: str = field(repr=False)
    instance_url: str
    org_id: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "instance_url", base_url(self.instance_url, "instance URL (or My Domain URL)")
        )
        require(self.token, "session token", "an access token or session id of the org")

    @property
    def login_url(self) -> str:
        return self.instance_url


OAuthLogin = ClientCredentials | JwtBearer | RefreshToken | UsernamePassword
Login = OAuthLogin | SoapLogin | SessionToken


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a client needs; equal settings share their session within the process.

    :param endpoint: `host:port` of the Pub/Sub API.
    :param ca_file: PEM file of the authorities to trust *instead of* the usual ones, for login and API alike.
    :param plaintext: no TLS to the API; to this machine only.
    """

    login: Login
    endpoint: str = DEFAULT_ENDPOINT
    ca_file: str = ""
    plaintext: bool = False

    def __post_init__(self) -> None:
        host = endpoint_host(self.endpoint)
        if self.plaintext and not is_loopback(host):
            raise ConfigurationError(
                f"plaintext is set, but the endpoint {self.endpoint!r} is not on this machine: the token would travel "
                "readable by anyone. Unset plaintext, or use an endpoint on localhost."
            )

    @property
    def endpoint_is_local(self) -> bool:
        return is_loopback(endpoint_host(self.endpoint))


def base_url(url: str, what: str) -> str:
    """The URL as scheme and host alone. :raises ConfigurationError: unless it is HTTPS, or HTTP to this machine.

    :param what: which URL, by the name of its field in the connection's form.
    """
    text = url.strip()
    require(text, what, "it as https://<my domain>.my.salesforce.com")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port  # reading the port checks it
    except ValueError as error:
        raise ConfigurationError(f"The {what} {url!r} is no URL: {error}.") from error
    if parts.scheme not in {"https", "http"} or not host:
        raise ConfigurationError(
            f"The {what} {url!r} is no URL. Give it as https://<my domain>.my.salesforce.com."
        )
    if parts.username or parts.password:
        raise ConfigurationError(
            f"The {what} of host {host!r} holds a user name or password. Leave them out."
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigurationError(
            f"The {what} {url!r} is not HTTPS. Plain HTTP goes to this machine only; use https://."
        )
    return f"{parts.scheme}://{parts.netloc}"


def endpoint_host(endpoint: str) -> str:
    """The host of a `host:port`. :raises ConfigurationError: when it is not one."""
    host = _host_before_port(endpoint)
    if not host:
        raise ConfigurationError(
            f"The Pub/Sub endpoint {endpoint!r} is not of the form host:port. The usual one is {DEFAULT_ENDPOINT!r}."
        )
    return host


def _host_before_port(endpoint: str) -> str:
    try:
        parts = urlsplit(f"//{endpoint}")
        port = parts.port
    except ValueError:
        return ""
    is_bare = parts.netloc == endpoint and "@" not in endpoint
    return (parts.hostname or "") if is_bare and port else ""


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def require(value: str, what: str, which: str) -> None:
    if not value.strip():
        raise ConfigurationError(f"The connection has no {what}. Give {which}.")


def _soap_version(version: str) -> str:
    """As `NN.0`. :raises ConfigurationError: for a version in which nobody can log in."""
    match = re.fullmatch(r"v?(\d{1,3})(?:\.0)?", version.strip())
    if not match:
        raise ConfigurationError(
            f"The API version {version!r} is none. Give one such as {SOAP_DEFAULT_VERSION}."
        )
    number = int(match[1])
    if number > SOAP_NEWEST:
        raise ConfigurationError(
            f"The SOAP login does not exist in API {number}.0: Salesforce left it out from {SOAP_NEWEST + 1}.0 on, and ends it in all versions with "
            f"Summer '27. Use client credentials or JWT bearer, or until then an API version up to {SOAP_NEWEST}.0."
        )
    if number < SOAP_OLDEST:
        raise ConfigurationError(
            f"API {number}.0 is retired. Give a version from {SOAP_OLDEST}.0 to {SOAP_NEWEST}.0, or none."
        )
    return f"{number}.0"
