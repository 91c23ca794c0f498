"""A certificate authority of the emulator, and the server certificate that it signs."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.extras import require

if TYPE_CHECKING:
    from pathlib import Path

_CA_CERTIFICATE = "ca.pem"
_CA_KEY = "ca-key.pem"
_SERVER = "server.pem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """Certificates of a server that speaks TLS.

    :param ca_file: certificate that clients must trust.
    :param server_file: key and chain of the server, as uvicorn requires them.
    """

    ca_file: Path
    server_file: Path

    def server_context(self) -> ssl.SSLContext:
        """TLS context of an HTTP/2 server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_file)
        context.set_alpn_protocols(["h2"])
        return context


def make_certificates(folder: Path, host: str) -> Certificates:
    """Create certificates for this host and the loopback names, with the folder's authority if any.

    :raises EmulatorError: the authority in the folder is damaged, or the folder cannot be written.
    """
    try:
        return _made(folder, host)
    except OSError as error:
        raise EmulatorError(
            f"the certificates in {folder} cannot be written: {error.strerror}; make room there, "
            "or name another folder"
        ) from error


def _made(folder: Path, host: str) -> Certificates:
    trustme = require("trustme")
    ca_file, ca_key, server_file = (folder / name for name in (_CA_CERTIFICATE, _CA_KEY, _SERVER))
    if ca_file.exists() and ca_key.exists():
        try:
            authority = trustme.CA.from_pem(ca_file.read_bytes(), ca_key.read_bytes())
        except ValueError as error:
            raise EmulatorError(
                f"{ca_file} or {ca_key} is damaged: {error}; delete both to get a new authority, "
                "which clients must then trust"
            ) from error
    else:
        authority = trustme.CA(organization_name="sfevents emulator")
        authority.cert_pem.write_to_path(str(ca_file))
        _write_secret(ca_key, authority.private_key_pem.bytes())
    certificate = authority.issue_cert(*dict.fromkeys((host, "127.0.0.1", "localhost")))
    chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
    key = certificate.private_key_pem.bytes()
    _write_secret(server_file, key + chain)
    return Certificates(ca_file=ca_file, server_file=server_file)


def _write_secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
