"""Client of the admin API of an emulator in another process, found by its state file."""

from __future__ import annotations

import json
import os
import ssl
from dataclasses import asdict, dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.state_folder import replace_file

TOKEN_VARIABLE = "SFEVENTS_EMULATOR_TOKEN"  # noqa: S105 - its name
"""Environment variable with the token of an emulator that is named by its URL."""

_TIMEOUT_SECONDS = 30.0
_ROOT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatorAddress:
    """Address and token of a running emulator; the content of its state file.

    :param url: My Domain of its first org.
    :param token: token of its admin API.
    """

    url: str
    endpoint: str
    login_url: str
    org_id: str
    ca_file: str
    pid: int
    token: str = field(repr=False)

    def remote(self) -> Remote:
        """Client of its admin API."""
        return Remote(self.url, self.ca_file, self.token)

    def write(self, path: Path) -> None:
        """Replace the state file atomically; only its user can read it.

        :raises EmulatorError: the file cannot be written.
        """
        replace_file(path, json.dumps(asdict(self), indent=1), "name another file with --state")

    @classmethod
    def read(cls, path: Path) -> EmulatorAddress:
        """Read the address from a state file.

        :raises EmulatorError: the file does not exist, is not a state file, or belongs to another
            user.
        """
        try:
            with path.open(encoding="utf-8") as file:
                if not is_trusted(os.fstat(file.fileno()).st_uid, os.getuid()):
                    raise EmulatorError(
                        f"{path} belongs to another user; name your own emulator with --folder or "
                        "--state"
                    )
                return cls(**json.load(file))
        except FileNotFoundError as error:
            raise EmulatorError(
                f"no running emulator found: {path} does not exist; start one, or say where it is "
                "with --folder, --state or --url"
            ) from error
        except (OSError, ValueError, TypeError) as error:
            raise EmulatorError(f"{path} is not an emulator's state file: {error}") from error


def is_trusted(owner: int, user: int) -> bool:
    """True if a user trusts a file of this owner: the user's own or root's; root trusts all."""
    return user in {owner, _ROOT} or owner == _ROOT


def state_file(folder: str | None = None) -> Path:
    """Path of a running emulator's state file: in its folder, otherwise in a folder of the user.

    Never in a folder that all users share: another user could create the file first and so choose
    the emulator that the commands talk to.
    """
    if folder:
        return Path(folder) / "emulator.json"
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "sfevents-emulator.json"
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "sfevents-emulator.json"


class Remote:
    """Client of a running emulator's admin API.

    :param ca_file: certificate to trust, if the emulator serves TLS.
    :param token: token of the admin API.
    """

    def __init__(self, url: str, ca_file: str = "", token: str = "") -> None:
        if not url.startswith(("http://", "https://")):
            raise EmulatorError(f"--url {url!r} must begin with http:// or https://")
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}
        try:
            self._context = ssl.create_default_context(cafile=ca_file) if ca_file else None
        except OSError as error:
            raise EmulatorError(
                f"--ca-file {ca_file} is not a certificate that can be read: {error.strerror}"
            ) from error

    def get(self, path: str, **query: Any) -> Any:
        return self._ask(f"{path}?{urlencode(query)}", None)

    def post(self, path: str, **body: Any) -> Any:
        return self._ask(path, json.dumps(body).encode())

    def _ask(self, path: str, body: bytes | None) -> Any:
        """Send a request and return the JSON answer.

        :raises EmulatorError: the emulator refused or cannot be reached.
        """
        url = f"{self._url}/emulator/{path}"
        request = Request(url, data=body, headers=self._headers)  # noqa: S310 - checked above
        try:
            with urlopen(  # noqa: S310
                request, timeout=_TIMEOUT_SECONDS, context=self._context
            ) as answer:
                return json.load(answer)
        except HTTPError as error:
            raise EmulatorError(_reason(error)) from error
        except (OSError, HTTPException, ValueError) as error:
            why = getattr(error, "reason", error)
            raise EmulatorError(
                f"no emulator answers at {self._url} ({why}); is it running?"
            ) from error


def _reason(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.url} answered HTTP {error.code}; is that an emulator?"
