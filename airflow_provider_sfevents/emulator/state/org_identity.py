"""Who an org is and who may log in to it: ids, its connected app and that app's key pair, its user and that user's secrets."""

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
    """An RSA key pair, made when it is first asked for: that takes a tenth of a second, and most tests never do."""

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
    """A connected app: what a client logs in with.

    :param users: usernames pre-authorised for the JWT bearer flow.
    :param refresh_token: what its user was given once, to log in again without being there.
    """

    consumer_key: str
    consumer_secret: str = field(repr=False)
    users: tuple[str, ...]
    keys: KeyPair = field(repr=False)
    refresh_token: str = field(default_factory=_refresh_token, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The facts of one org that outlive a restart.

    :param password: its user's; `security_token` goes behind it where a program logs in.
    :param http_port: port of its My Domain; 0 where any will do.
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
        """Whether these are its user's name, and password with the security token behind it."""
        right = f"{self.password}{self.security_token}"
        same = hmac.compare_digest(password.encode(), right.encode())
        return username.lower() == self.username.lower() and same

    @classmethod
    def new(cls, name: str, http_port: int = 0) -> Identity:
        """Org nobody has seen before."""
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
            **_written(value, ("refresh_token",)),
        )
        kept = {
            name: value[name] for name in ("name", "org_id", "user_id", "username", "http_port")
        }
        return cls(**{**kept, **_written(value, ("password", "security_token"))}, app=app)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """An org as the login server sees it."""

    identity: Identity
    instance_url: str


def _written(value: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Secrets that a folder holds; one written by an earlier version has none of these, and they are made anew."""
    return {name: value[name] for name in names if name in value}
