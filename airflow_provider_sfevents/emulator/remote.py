"""Talks to an emulator that runs in another process: finds it by its state file, asks over HTTP."""

from __future__ import annotations

import json
import os
import ssl
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from airflow_provider_sfevents.emulator.errors import EmulatorError

_TIMEOUT_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Whereabouts:
    """Where a running emulator is reached; what its state file holds.

    :param url: My Domain of its first org.
    """

    url: str
    endpoint: str
    login_url: str
    org_id: str
    ca_file: str
    pid: int

    def write(self, path: Path) -> None:
        """Replace the file, whole or not at all.

        :raises EmulatorError: when it cannot be written.
        """
        new = path.with_name(f"{path.name}.new")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            new.write_text(json.dumps(asdict(self), indent=1))
            new.replace(path)
        except OSError as error:
            raise EmulatorError(
                f"state file {path} cannot be written: {error.strerror}; name another one with --state"
            ) from error

    @classmethod
    def read(cls, path: Path) -> Whereabouts:
        """Find the emulator that wrote this file.

        :raises EmulatorError: when there is no such file, or it is not a state file.
        """
        try:
            return cls(**json.loads(path.read_text()))
        except FileNotFoundError as error:
            raise EmulatorError(
                f"no running emulator found: {path} does not exist; start one, or say where it is with --folder, --state or --url"
            ) from error
        except (OSError, ValueError, TypeError) as error:
            raise EmulatorError(f"{path} is not an emulator's state file: {error}") from error


def state_file(folder: str | None = None) -> Path:
    """Path where a running emulator says where it is: in its folder, or else in the user's runtime directory."""
    if folder:
        return Path(folder) / "emulator.json"
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "sfevents-emulator.json"
    return Path(tempfile.gettempdir()) / f"sfevents-emulator-{os.getuid()}.json"


class Remote:
    """The admin face of a running emulator.

    :param ca_file: to trust, where it serves TLS.
    """

    def __init__(self, url: str, ca_file: str = "") -> None:
        if not url.startswith(("http://", "https://")):
            raise EmulatorError(f"--url {url!r} must begin with http:// or https://")
        self._url = url.rstrip("/")
        self._context = ssl.create_default_context(cafile=ca_file) if ca_file else None

    def get(self, path: str, **query: Any) -> Any:
        return self._ask(Request(f"{self._url}/emulator/{path}?{urlencode(query)}"))  # noqa: S310 - checked above

    def post(self, path: str, **body: Any) -> Any:
        return self._ask(Request(f"{self._url}/emulator/{path}", data=json.dumps(body).encode()))  # noqa: S310

    def _ask(self, request: Request) -> Any:
        """Ask, and give the answer.

        :raises EmulatorError: with what the emulator said, or why it could not be asked.
        """
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
