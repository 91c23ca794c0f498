"""The signed assertion of the JWT bearer flow."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from airflow_provider_sfevents.exceptions import ConfigurationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    from airflow_provider_sfevents.pubsub.auth.settings import JwtBearer

# Salesforce's page asks for at most 3 minutes; 150 s leave room for a clock that is ahead.
ASSERTION_SECONDS = 150


def sign_assertion(login: JwtBearer, now: datetime) -> str:
    """Sign the assertion for a login.

    :raises ConfigurationError: the key is unreadable; the message holds nothing of it.
    """
    import jwt

    claims = {
        "iss": login.client_id,
        "sub": login.username,
        "aud": login.audience or login.login_url,
        "exp": int((now + timedelta(seconds=ASSERTION_SECONDS)).timestamp()),
    }
    return jwt.encode(claims, _key(login), algorithm="RS256")


def _key(login: JwtBearer) -> RSAPrivateKey:
    """Return the key, decrypted and checked; PyJWT itself takes no passphrase."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    try:
        key = serialization.load_pem_private_key(
            _pem(login).encode(), login.passphrase.reveal().encode() or None
        )
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        encrypted = "encrypted" in str(error).casefold()
        raise ConfigurationError(_unreadable(login, encrypted=encrypted)) from None
    if not isinstance(key, RSAPrivateKey):
        raise ConfigurationError(
            f"The private key {_whose(login)} is not an RSA key. The JWT bearer flow signs with "
            "RS256: give an RSA key."
        )
    return key


def _pem(login: JwtBearer) -> str:
    """The key's text; one pasted into JSON keeps its line breaks as two characters."""
    return login.private_key.reveal().replace("\\n", "\n").strip()


def _whose(login: JwtBearer) -> str:
    return f"that user {login.username} logs in with"


def _unreadable(login: JwtBearer, *, encrypted: bool) -> str:
    text, key = _pem(login), f"The private key {_whose(login)}"
    if not text.startswith("-----BEGIN"):
        return (
            f"{key} is not PEM: it must begin with a line -----BEGIN … PRIVATE KEY-----, line "
            "breaks kept."
        )
    if "CERTIFICATE" in text.partition("\n")[0]:
        return f"{key} is a certificate. Give the key it was made with."
    if login.passphrase:
        return (
            f"{key} cannot be read with the passphrase given. Check private_key_passphrase, or "
            "leave it out."
        )
    if encrypted or "ENCRYPTED" in text:
        return f"{key} is encrypted. Set private_key_passphrase."
    return f"{key} is PEM but cannot be read: copy the whole file again, line breaks kept."
