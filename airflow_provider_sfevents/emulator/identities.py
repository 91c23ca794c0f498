"""Who an org is and who may log in to it: ids, its connected app, its user and that app's key pair."""

from __future__ import annotations

import random
import secrets
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from airflow_provider_sfevents.emulator import ids


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


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """A connected app: what a client logs in with.

    :param run_as: user of the client credentials flow; empty where the app has none.
    :param users: usernames pre-authorised for the JWT bearer flow.
    """

    consumer_key: str
    consumer_secret: str = field(repr=False)
    run_as: str
    users: tuple[str, ...]
    keys: KeyPair = field(repr=False)
    client_credentials: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """The facts of one org that outlive a restart.

    :param http_port: port of its My Domain; 0 where any will do.
    """

    name: str
    org_id: str
    user_id: str
    username: str
    app: App
    http_port: int = 0

    @classmethod
    def new(cls, name: str, http_port: int = 0) -> Identity:
        """Org nobody has seen before."""
        source = random.SystemRandom()
        username = f"integration@{name}.example.com"
        app = App(
            consumer_key="3MVG9" + secrets.token_urlsafe(60),
            consumer_secret=secrets.token_hex(32).upper(),
            run_as=username,
            users=(username,),
            keys=KeyPair(),
        )
        return cls(
            name=name,
            org_id=ids.random_id("00D", source),
            user_id=ids.random_id("005", source),
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
            "http_port": self.http_port,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Identity:
        app = App(
            consumer_key=value["consumer_key"],
            consumer_secret=value["consumer_secret"],
            run_as=value["username"],
            users=(value["username"],),
            keys=KeyPair(value["private_key"]),
        )
        kept = {
            name: value[name] for name in ("name", "org_id", "user_id", "username", "http_port")
        }
        return cls(**kept, app=app)
