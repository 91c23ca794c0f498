"""Foreign clients as processes, each run by a small driver.

Orders and reports are lines of JSON. Each client has its own environment, in which the emulator's
certificate is trusted in the way that `docs/reference/emulator.md` describes.
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
    from collections.abc import Mapping, Sequence

NPM_CLIENT = "salesforce-pubsub-api-client"
_SECONDS = 30.0
# The machine's own certificates and proxies must not decide which server a client trusts.
_INHERITED = ("HOME", "LANG", "PATH", "TMPDIR")


class ForeignError(Exception):
    """The client refused an order or raised; the message is its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """Command and environment of a client."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: Path


@dataclass(slots=True, kw_only=True)
class ForeignClient:
    """One client in its process.

    :param said: unsolicited reports so far, oldest first: events, keepalives, errors.
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
        """Send an order to the client, and return the result.

        :raises ForeignError: with the client's error.
        """
        process = self._process
        assert process is not None
        assert process.stdin is not None
        with suppress(BrokenPipeError):  # the client has ended, and its last output is in the log
            process.stdin.write(f"{json.dumps({'order': order, **arguments})}\n")
            process.stdin.flush()
        answer = self._told("order", order, 1)[0]
        self.said.remove(answer)
        if answer["said"] == "refused":
            raise ForeignError(answer["why"])
        return answer.get("result")

    def wait(self, kind: str, count: int = 1) -> list[dict[str, Any]]:
        """Wait until there are so many reports of this kind, and return them."""
        return self._told("said", kind, count)

    def stop(self) -> None:
        """End the client; one that does not end is killed, and the test fails."""
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
        """End of the client's standard error."""
        return (self.program.folder / "client.log").read_text()[-4000:]

    def _told(self, key: str, value: str, count: int) -> list[dict[str, Any]]:
        """Read reports until so many have this value, and return them."""
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
    """Make a driver for Node, with a copy of the client in its folder.

    The copy has the certificate at the end of its bundle.

    :param trusted: False leaves the client's bundle as it came.
    :raises ClientsMissingError: if the client cannot be installed.
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
    """Make a driver for Python, with a `certifi` that has the certificate at its end.

    :param trusted: False leaves certifi as it came.
    :raises ClientsMissingError: if the clients cannot be installed.
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


def java_program(driver: str, folder: Path, ca_file: str, *, jars: Sequence[Path]) -> Program:
    """Make a driver for Java, which the machine's JDK compiles when it starts.

    :param ca_file: given to the driver by an order.
    :param jars: of the client and what it needs.
    """
    path = os.pathsep.join(map(str, jars))
    quick = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    command = ("java", *quick, "-cp", path, str(CLIENTS / driver))
    return Program(command=command, environment=_environment({}), folder=folder)


def _certifi(interpreter: str, environment: Mapping[str, str] | None = None) -> Path:
    """Path of the bundle that a Python trusts, from `python -m certifi`."""
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
