"""Identity of an org: ids, connected app with its key pair, user and secrets."""

from __future__ import annotations

import hmac
import random
import secrets
import string
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airflow_provider_sfevents.emulator import salesforce_ids


class KeyPair:
    """RSA key pair, generated at first use, which takes 0.1 s and most tests never need."""

    def __init__(self, private_key_pem: str = "") -> None:
        self._given = private_key_pem

    @cached_property
    def private_key_pem(self) -> str:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import rsa

        if self._given:
            return self._given
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        return key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode()

    @cached_property
    def public_key_pem(self) -> str:
        from cryptography.hazmat.primitives import serialization

        key = serialization.load_pem_private_key(self.private_key_pem.encode(), password=None)
        return (
            key.public_key()
            .public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            .decode()
        )


def _refresh_token() -> str:
    return "5Aep861" + secrets.token_urlsafe(60)


def _security_token() -> str:
    return "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(25))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectedApp:
    """A connected app, with which clients log in.

    :param users: usernames that are pre-authorised for the JWT bearer flow.
    :param refresh_token: issued to the app once for its user, for later logins.
    """

    consumer_key: str
    consumer_secret: str = field(repr=False)
    users: tuple[str, ...]
    keys: KeyPair = field(repr=False)
    refresh_token: str = field(default_factory=_refresh_token, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Facts of one org that survive a restart.

    :param password: password of its user; programs append `security_token`.
    :param http_port: port of its My Domain; 0 for any.
    """

    name: str
    org_id: str
    user_id: str
    username: str
    app: ConnectedApp
    password: str = field(default_factory=lambda: secrets.token_urlsafe(12), repr=False)
    security_token: str = field(default_factory=_security_token, repr=False)
    http_port: int = 0

    def admits(self, username: str, password: str) -> bool:
        """True if these are the username and the password followed by the security token."""
        right = f"{self.password}{self.security_token}"
        same = hmac.compare_digest(password.encode(), right.encode())
        return username.lower() == self.username.lower() and same

    @classmethod
    def new(cls, name: str, http_port: int = 0) -> Identity:
        """Identity of a new org."""
        source = random.SystemRandom()
        username = f"integration@{name}.example.com"
        app = ConnectedApp(
            consumer_key="3MVG9" + secrets.token_urlsafe(60),
            consumer_secret=secrets.token_hex(32).upper(),
            users=(username,),
            keys=KeyPair(),
        )
        return cls(
            name=name,
            org_id=salesforce_ids.random_id("00D", source),
            user_id=salesforce_ids.random_id("005", source),
            username=username,
            app=app,
            http_port=http_port,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "org_id": self.org_id,
            "user_id": self.user_id,
            "username": self.username,
            "consumer_key": self.app.consumer_key,
            "consumer_secret": self.app.consumer_secret,
            "private_key": self.app.keys.private_key_pem,
            "refresh_token": self.app.refresh_token,
            "password": self.password,
            "security_token": self.security_token,
            "http_port": self.http_port,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Identity:
        app = ConnectedApp(
            consumer_key=value["consumer_key"],
            consumer_secret=value["consumer_secret"],
            users=(value["username"],),
            keys=KeyPair(value["private_key"]),
            refresh_token=value["refresh_token"],
        )
        names = ("name", "org_id", "user_id", "username", "password", "security_token", "http_port")
        return cls(**{name: value[name] for name in names}, app=app)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An org from the login server's view."""

    identity: Identity
    instance_url: str
