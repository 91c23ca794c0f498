"""Other people's clients as processes: started by a small driver, told what to do and telling what they see, a line of JSON each.

Each has an environment of its own in which the emulator's certificate is trusted, in the way that `docs/reference/emulator.md` gives to users.
"""

from __future__ import annotations

import json
import os
import queue
import shutil
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from tests.harness.foreign_packages import CLIENTS, node_modules, python

if TYPE_CHECKING:
    from collections.abc import Mapping

NPM_CLIENT = "salesforce-pubsub-api-client"
_SECONDS = 30.0
# All else that this machine is set up with (certificates, proxies) must not decide whom a client trusts and how it gets there.
_INHERITED = ("HOME", "LANG", "PATH", "TMPDIR")


class ForeignError(Exception):
    """The client refused what it was told, or raised; the text is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """How a client is started."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path


@dataclass(slots=True, kw_only=True)
class ForeignClient:
    """One client in its process.

    :param said: what it told on its own so far, oldest first: events, keepalives, errors.
    """

    program: Program
    said: list[dict[str, Any]] = field(default_factory=list)
    _process: subprocess.Popen[str] | None = None
    _reader: threading.Thread | None = None
    _lines: queue.Queue[str | None] = field(default_factory=queue.Queue)

    def start(self) -> Self:
        with (self.program.folder / "client.log").open("ab") as log:
            self._process = subprocess.Popen(
                self.program.command,
                cwd=self.program.folder,
                env=dict(self.program.environment),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        return self

    def order(self, order: str, **arguments: Any) -> Any:
        """Let it do something; what came of it.

        :raises ForeignError: with what the client raised.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # then it has ended, and its last words are in the log
            process.stdin.write(f"{json.dumps({'order': order, **arguments})}\n")
            process.stdin.flush()
        answer = self._told("order", order, 1)[0]
        self.said.remove(answer)
        if answer["said"] == "refused":
            raise ForeignError(answer["why"])
        return answer.get("result")

    def wait(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """All it has told of this kind, once there are so many."""
        return self._told("said", kind, count)

    def stop(self) -> None:
        """End it in good order; a client that does not end is killed, and the test told."""
        process, reader = self._process, self._reader
        if process is None or reader is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(timeout=10)
        finally:
            process.kill()
            process.wait()
            reader.join()
            process.stdout.close()

    @property
    def log(self) -> str:
        """The end of what it wrote to standard error."""
        return (self.program.folder / "client.log").read_text()[-4000:]

    def _told(self, key: str, value: str, count: int) -> list[dict[str, Any]]:
        """What it has told with this value, once there are so many; takes in line by line until then."""
        until = time.monotonic() + _SECONDS
        while len(found := [one for one in self.said if one.get(key) == value]) < count:
            try:
                line = self._lines.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                line = None
            if line is None:
                missing = f"{len(found)} of {count} with {key} {value!r}"
                raise AssertionError(f"{missing}; it said {self.said}, and wrote {self.log}")
            self.said.append(json.loads(line))
        return found

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._lines.put(line)
        self._lines.put(None)


def node_program(driver: str, folder: Path, ca_file: str, *, trusted: bool = True) -> Program:
    """A driver for Node, in a folder whose copy of the client has the certificate at the end of its bundle.

    :param trusted: whether it has; without it the client's bundle is as it came.
    :raises NoClients: where the client cannot be had.
    """
    installed, own = node_modules(), folder / "node_modules"
    own.mkdir(parents=True)
    for package in installed.iterdir():
        if package.name != NPM_CLIENT:
            (own / package.name).symlink_to(package)
    shutil.copytree(installed / NPM_CLIENT, own / NPM_CLIENT)
    shutil.copy(CLIENTS / driver, folder)
    if trusted:
        [bundle] = (own / NPM_CLIENT / "dist").glob("cacert-*.pem")
        _append(Path(ca_file), bundle)
    environment = _environment({"NODE_EXTRA_CA_CERTS": ca_file})
    return Program(command=("node", driver), environment=environment, folder=folder)


def python_program(driver: str, folder: Path, ca_file: str, *, trusted: bool = True) -> Program:
    """A driver for Python, which finds a `certifi` with the certificate at the end of its bundle.

    :param trusted: whether it has; without it certifi is as it came.
    :raises NoClients: where the clients cannot be had.
    """
    interpreter = str(python())
    own = folder / "packages"
    shutil.copytree(_certifi(interpreter).parent, own / "certifi")
    environment = _environment({"PYTHONPATH": str(own)})
    if trusted:
        _append(Path(ca_file), _certifi(interpreter, environment))
    return Program(
        command=(interpreter, str(CLIENTS / driver)), environment=environment, folder=folder
    )


def _certifi(interpreter: str, environment: Mapping[str, str] | None = None) -> Path:
    """The bundle that a Python trusts, as `python -m certifi` says."""
    found = subprocess.run(
        [interpreter, "-m", "certifi"],
        env=dict(environment or _environment({})),
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(found.stdout.strip())


def _append(ca_file: Path, bundle: Path) -> None:
    with bundle.open("a") as end:
        end.write(f"\n{ca_file.read_text()}")


def _environment(own: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    return {**inherited, **own}
