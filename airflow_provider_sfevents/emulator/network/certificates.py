"""A certificate authority of one's own, and the server certificate it signs."""

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
    """What TLS needs, on disk and in memory.

    :param ca_file: what a client must trust.
    :param server_file: key and chain of the server, as uvicorn wants them.
    """

    ca_file: Path
    server_file: Path

    def server_context(self) -> ssl.SSLContext:
        """Context of a server that speaks HTTP/2."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.server_file)
        context.set_alpn_protocols(["h2"])
        return context


def make_certificates(folder: Path, host: str) -> Certificates:
    """Certificates for this host and the loopback names; the authority in the folder is used again.

    :raises EmulatorError: when that one is damaged.
    """
    trustme = require("trustme")
    ca_file, ca_key, server_file = (folder / name for name in (_CA_CERTIFICATE, _CA_KEY, _SERVER))
    if ca_file.exists() and ca_key.exists():
        try:
            authority = trustme.CA.from_pem(ca_file.read_bytes(), ca_key.read_bytes())
        except ValueError as error:
            raise EmulatorError(
                f"{ca_file} or {ca_key} is damaged: {error}; without them an emulator makes new ones, to be trusted anew"
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
