"""Settings of the client: the login, the endpoint, and the hosts that may have a token. Pure.

Rule 1. HTTPS and TLS everywhere, except to this machine.
Rule 2. A secret is a `Secret`, which shows nowhere.
Rule 3. A token goes to the host that the connection names, to Salesforce's own domains, and to the
        hosts in `allowed_hosts`. The answer to a login names the host of the org; it is the login
        host that says so, but a wrong or forged answer must not decide where a token is sent.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from airflow_provider_sfevents.exceptions import ConfigurationError
from airflow_provider_sfevents.pubsub.auth.connection_checks import (
    CONNECTION_TIMEOUT,
    check_proxy,
    check_timeout,
    check_token,
)
from airflow_provider_sfevents.pubsub.auth.secret import NO_SECRET, Secret
from airflow_provider_sfevents.pubsub.topic_names import check_transport

# The EU host is api.deu.pubsub.salesforce.com; ports 443 and 7443 are the same service.
DEFAULT_HOST, DEFAULT_PORT = "api.pubsub.salesforce.com", 7443
DEFAULT_ENDPOINT = f"{DEFAULT_HOST}:{DEFAULT_PORT}"

SALESFORCE_DOMAINS = (
    "salesforce.com",
    "force.com",
    "cloudforce.com",
    "my-salesforce.com",
    "salesforce.mil",
    "sfcrmproducts.cn",
)
"""Domains that only Salesforce has hosts in, as far as an org's API can be there.

Source: Salesforce's own command line (forcedotcom/sfdx-core, src/util/sfdcUrl.ts, functions
`isSalesforceDomain` and `toLightningDomain`); the last one is that of Salesforce on Alibaba Cloud.
"""

STREAMING_SESSIONS, MOST_STREAMING_SESSIONS = 10, 2000
"""Default, and the most that any edition has (Streaming API Developer Guide, "Streaming API
Limits"); a Developer edition has 20."""

_HOST_NAME = re.compile(r"[0-9A-Za-z_](?:[0-9A-Za-z_.-]*[0-9A-Za-z_])?\.?")

# SOAP login() answers in these versions alone (Salesforce help 005132110, "SOAP login()
# retirement"); its Python sample uses 57.0.
SOAP_DEFAULT_VERSION = "57.0"
SOAP_OLDEST, SOAP_NEWEST = 31, 64
END_OF_SOAP = (
    "Salesforce ends the SOAP login with Summer '27: change the connection to client credentials "
    "or JWT bearer before."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCredentials:
    """OAuth client credentials: the app's run-as user reads.

    :param login_url: the org's My Domain; `login.salesforce.com` refuses this flow.
    """

    login_url: str
    client_id: str
    client_secret: Secret

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
    private_key: Secret
    passphrase: Secret = NO_SECRET
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
    """OAuth refresh token: a user's consent, valid until it is revoked.

    :param client_secret: empty for an app that does not require one.
    """

    login_url: str
    client_id: str
    refresh_token: Secret
    client_secret: Secret = NO_SECRET

    def __post_init__(self) -> None:
        object.__setattr__(self, "login_url", base_url(self.login_url, "My Domain URL"))
        require(self.client_id, "consumer key", "the key of the app that the token was given to")
        require(
            self.refresh_token,
            "refresh token",
            "the token that the app got when the user consented",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class UsernamePassword:
    """OAuth username-password; newer orgs refuse it unless an administrator allows it.

    :param security_token: empty where the user's network is trusted by the org.
    """

    login_url: str
    client_id: str
    username: str
    client_secret: Secret
    password: Secret
    security_token: Secret = NO_SECRET

    def __post_init__(self) -> None:
        object.__setattr__(self, "login_url", base_url(self.login_url, "My Domain URL"))
        require(self.client_id, "consumer key", "the app's consumer key")
        require(self.client_secret, "consumer secret", "the app's consumer secret")
        require(self.username, "user name", "the Salesforce user to act as")
        require(self.password, "user password", "the Salesforce user's own password")


@dataclass(frozen=True, slots=True, kw_only=True)
class SoapLogin:
    """User name and password without an app.

    Salesforce ends this login with Summer '27, and new orgs have it switched off.

    :param security_token: empty where the user's network is trusted by the org.
    :param api_version: 31.0 to 64.0; login() is absent from later ones.
    """

    login_url: str
    username: str
    password: Secret
    security_token: Secret = NO_SECRET
    api_version: str = SOAP_DEFAULT_VERSION

    def __post_init__(self) -> None:
        object.__setattr__(self, "login_url", base_url(self.login_url, "My Domain URL"))
        object.__setattr__(self, "api_version", _soap_version(self.api_version))
        require(self.username, "user name", "the Salesforce user to act as")
        require(self.password, "password", "the Salesforce user's own password")


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionToken:
    """A session that was obtained elsewhere. It cannot be renewed here.

    :param org_id: empty: taken from the token, otherwise read from the org.
    """

    token: Secret
    instance_url: str
    org_id: str = ""

    def __post_init__(self) -> None:
        url = base_url(self.instance_url, "instance URL (or My Domain URL)")
        object.__setattr__(self, "instance_url", url)
        require(self.token, "session token", "an access token or session id of the org")
        check_token(self.token)

    @property
    def login_url(self) -> str:
        return self.instance_url


OAuthLogin = ClientCredentials | JwtBearer | RefreshToken | UsernamePassword
Login = OAuthLogin | SoapLogin | SessionToken


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything a client needs; equal settings share their session within the process.

    :param endpoint: `host:port` of the Pub/Sub API.
    :param ca_file: PEM file of the authorities to trust *instead of* the usual ones, for login and
        API alike.
    :param plaintext: no TLS to the API; to this machine only.
    :param allowed_hosts: further hosts that an org may be at; see rule 3.
    :param transport: API for topics that both have; empty: the Pub/Sub API.
    :param streaming_sessions: sessions of the Streaming API that a process has at once at most.
    :param connection_timeout: seconds that `airflow_provider_sfevents.client` gives a lost
        connection to come back; None: no limit.
    :param answer_timeout: longest wait in seconds for the answer to a login or to a request over
        HTTP; None: 10 for a login, 30 for the Streaming API, 120 for REST.
    :param proxy: URL of the HTTP proxy on the way to all hosts, with its user and password if it
        asks for them; empty: that of the environment.
    """

    login: Login
    endpoint: str = DEFAULT_ENDPOINT
    ca_file: str = ""
    plaintext: bool = False
    allowed_hosts: tuple[str, ...] = ()
    transport: str = ""
    streaming_sessions: int = STREAMING_SESSIONS
    connection_timeout: float | None = CONNECTION_TIMEOUT
    answer_timeout: float | None = None
    proxy: Secret = NO_SECRET

    def __post_init__(self) -> None:
        check_timeout("connection_timeout", self.connection_timeout)
        check_timeout("answer_timeout", self.answer_timeout)
        check_proxy(self.proxy)
        check_transport("/event/", self.transport)
        if not 1 <= self.streaming_sessions <= MOST_STREAMING_SESSIONS:
            raise ConfigurationError(
                f"streaming_sessions is {self.streaming_sessions}. Give a number from 1 to "
                f"{MOST_STREAMING_SESSIONS}, below the org's limit of CometD clients "
                "(DurableStreamingApiConcurrentClients)."
            )
        for name in self.allowed_hosts:
            if not _HOST_NAME.fullmatch(name):
                raise ConfigurationError(
                    f"allowed_hosts holds {name!r}, which is no host name. Give names without "
                    "scheme, port and path, such as gateway.acme.example."
                )
        host = endpoint_host(self.endpoint)
        if self.plaintext and not is_loopback(host):
            raise ConfigurationError(
                f"plaintext is set, but the endpoint {self.endpoint!r} is not on this machine: "
                "the token would travel readable by anyone. Unset plaintext, or use an endpoint "
                "on localhost."
            )

    def answer_seconds(self, usual: float) -> float:
        """Return the longest wait for an answer; without a setting the usual one of its kind."""
        return self.answer_timeout or usual

    @property
    def endpoint_is_local(self) -> bool:
        return is_loopback(endpoint_host(self.endpoint))

    def instance_url(self, url: str) -> str:
        """Return the org's URL of a login's answer as scheme and host, if the token may go there.

        :raises ConfigurationError: the host is none of those of rule 3.
        """
        checked = base_url(url, "instance URL in the login's answer")
        host = _host_of(checked)
        own = _host_of(self.login.login_url)
        if host == own or host in {name.casefold().rstrip(".") for name in self.allowed_hosts}:
            return checked
        if any(host.endswith(f".{domain}") for domain in SALESFORCE_DOMAINS):
            return checked
        known = ", ".join(f"*.{domain}" for domain in SALESFORCE_DOMAINS)
        raise ConfigurationError(
            f"The login at {self.login.login_url} says that the org is at {checked}. The token is "
            "not sent there: the host is neither the login's own nor one of Salesforce's "
            f"({known}). Check the connection's host; if the org is there, add {host} to "
            "allowed_hosts."
        )


def base_url(url: str, what: str) -> str:
    """The URL as scheme and host alone.

    :param what: the name of the URL's field in the connection's form.
    :raises ConfigurationError: unless it is HTTPS, or HTTP to this machine.
    """
    text = url.strip()
    require(text, what, "it as https://<my domain>.my.salesforce.com")
    holds_user = ConfigurationError(f"The {what} holds a user name or password. Leave them out.")
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port  # reading the port checks it
    except ValueError as error:
        wrong = ConfigurationError(f"The {what} {url!r} is no URL: {error}.")
        raise (holds_user if "@" in text else wrong) from None
    is_host = _HOST_NAME.fullmatch(host) is not None or is_loopback(host)
    if "@" in parts.netloc or ("@" in text and not is_host):
        raise holds_user
    if parts.scheme not in {"https", "http"} or not is_host:
        raise ConfigurationError(
            f"The {what} {url!r} is no URL. Give it as https://<my domain>.my.salesforce.com."
        )
    if parts.scheme == "http" and not is_loopback(host):
        raise ConfigurationError(
            f"The {what} {url!r} is not HTTPS. Plain HTTP goes to this machine only; use https://."
        )
    return f"{parts.scheme}://{parts.netloc}"


def endpoint_from(address: str, port: int | None) -> str:
    """Compose the endpoint `host:port` from the two fields of a connection.

    :param address: host, or `host:port`; empty: the global host.
    :param port: empty, or 0, which Airflow's form sends for an empty field: 7443.
    :raises ConfigurationError: the two fields name different ports, or the port is out of range.
    """
    if port and not 0 < port < 65536:
        raise ConfigurationError(
            f"The Pub/Sub port {port} is out of range. Give {DEFAULT_PORT}, or leave it empty."
        )
    own = _port_of(address)
    if own and port and own != port:
        raise ConfigurationError(
            f"The Pub/Sub port is {port}, and the Pub/Sub API endpoint {address!r} names {own}. "
            "Leave one of them out."
        )
    return address if own else f"{address or DEFAULT_HOST}:{port or DEFAULT_PORT}"


def _port_of(address: str) -> int | None:
    """The port of a `host:port`; None where there is none, or no number that can be one."""
    try:
        return urlsplit(f"//{address}").port
    except ValueError:
        return None


def _host_of(url: str) -> str:
    return (urlsplit(url).hostname or "").rstrip(".")


def endpoint_host(endpoint: str) -> str:
    """The host of a `host:port`.

    :raises ConfigurationError: when it is not one.
    """
    host = _host_before_port(endpoint)
    if not host:
        raise ConfigurationError(
            f"The Pub/Sub endpoint {endpoint!r} is not of the form host:port. The usual one is "
            f"{DEFAULT_ENDPOINT!r}."
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


def require(value: str | Secret, what: str, which: str) -> None:
    if not (value.strip() if isinstance(value, str) else value):
        raise ConfigurationError(f"The connection has no {what}. Give {which}.")


def _soap_version(version: str) -> str:
    """The version as `NN.0`.

    :raises ConfigurationError: SOAP login does not exist in this version.
    """
    match = re.fullmatch(r"v?(\d{1,3})(?:\.0)?", version.strip())
    if not match:
        raise ConfigurationError(
            f"The API version {version!r} is not valid. Give one such as {SOAP_DEFAULT_VERSION}."
        )
    number = int(match[1])
    if number > SOAP_NEWEST:
        raise ConfigurationError(
            f"The SOAP login does not exist in API {number}.0: Salesforce left it out from "
            f"{SOAP_NEWEST + 1}.0 on, and ends it in all versions with Summer '27. Use client "
            f"credentials or JWT bearer, or until then an API version up to {SOAP_NEWEST}.0."
        )
    if number < SOAP_OLDEST:
        raise ConfigurationError(
            f"API {number}.0 is retired. Give a version from {SOAP_OLDEST}.0 to {SOAP_NEWEST}.0, "
            "or none."
        )
    return f"{number}.0"
