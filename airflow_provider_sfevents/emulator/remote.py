"""Talks to an emulator that runs in another process: finds it by its state file, asks over HTTP."""

from __future__ import annotations

import json
import os
import ssl
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.folder import replace_file

TOKEN_VARIABLE = "SFEVENTS_EMULATOR_TOKEN"  # noqa: S105 - its name
"""Environment variable with the token of an emulator that is named by its URL."""

_TIMEOUT_SECONDS = 30.0
_ROOT = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Address and token of a running emulator; the content of its state file.

    :param url: My Domain of its first org.
    :param token: of its own face over HTTP.
    """

    url: str
    endpoint: str
    login_url: str
    org_id: str
    ca_file: str
    pid: int
    token: str = field(repr=False)

    def remote(self) -> Remote:
        """The emulator's own face."""
        return Remote(self.url, self.ca_file, self.token)

    def write(self, path: Path) -> None:
        """Replace the file, whole or not at all; only its user can read it.

        :raises EmulatorError: it cannot be written.
        """
        try:
            replace_file(path, json.dumps(asdict(self), indent=1))
        except OSError as error:
            raise EmulatorError(
                f"state file {path} cannot be written: {error.strerror}; name another one with --state"
            ) from error

    @classmethod
    def read(cls, path: Path) -> Whereabouts:
        """Find the emulator that wrote this file.

        :raises EmulatorError: there is no such file, it is not a state file, or another user's.
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
                f"no running emulator found: {path} does not exist; start one, or say where it is with --folder, --state or --url"
            ) from error
        except (OSError, ValueError, TypeError) as error:
            raise EmulatorError(f"{path} is not an emulator's state file: {error}") from error


def is_trusted(owner: int, user: int) -> bool:
    """Whether a user may believe a file of this owner: their own and root's; root believes all."""
    return user in {owner, _ROOT} or owner == _ROOT


def state_file(folder: str | None = None) -> Path:
    """Path of a running emulator's state file: in its folder, otherwise in one of the user's own.

    Never in a folder that all users share: another user could put a file there first, and so decide
    which emulator the commands talk to.
    """
    if folder:
        return Path(folder) / "emulator.json"
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "sfevents-emulator.json"
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "sfevents-emulator.json"


class Remote:
    """The emulator's own face, of a running emulator.

    :param ca_file: to trust, where it serves TLS.
    :param token: of the emulator.
    """

    def __init__(self, url: str, ca_file: str = "", token: str = "") -> None:
        if not url.startswith(("http://", "https://")):
            raise EmulatorError(f"--url {url!r} must begin with http:// or https://")
        self._url = url.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"}
        self._context = ssl.create_default_context(cafile=ca_file) if ca_file else None

    def get(self, path: str, **query: Any) -> Any:
        return self._ask(f"{path}?{urlencode(query)}", None)

    def post(self, path: str, **body: Any) -> Any:
        return self._ask(path, json.dumps(body).encode())

    def _ask(self, path: str, body: bytes | None) -> Any:
        """Ask, and give the answer.

        :raises EmulatorError: with what the emulator said, or why it could not be asked.
        """
        url = f"{self._url}/emulator/{path}"
        request = Request(url, data=body, headers=self._headers)  # noqa: S310 - checked above
        try:
            with urlopen(request, timeout=_TIMEOUT_SECONDS, context=self._context) as answer:  # noqa: S310
                return json.load(answer)
        except HTTPError as error:
            raise EmulatorError(_reason(error)) from error
        except (URLError, OSError, ValueError) as error:
            why = getattr(error, "reason", error)
            raise EmulatorError(
                f"no emulator answers at {self._url} ({why}); is it running?"
            ) from error


def _reason(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"{error.url} answered HTTP {error.code}; is that an emulator?"
