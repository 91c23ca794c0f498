"""A Spark Connect server on the loopback interface, in its own process."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_sfevents.submit.preflight import installed_pyspark
from tests.harness.leaks import TESTS
from tests.harness.spark import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_SECONDS = 240
_CLASS = "org.apache.spark.sql.connect.service.SparkConnectServer"


@dataclass(frozen=True)
class ConnectServer:
    """A running server.

    :param log: file with its standard output and error.
    """

    url: str
    log: Path
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """End the server as an operator does."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Kill the server and its Python workers."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, number)
        self.process.wait(60)


@contextmanager
def connect_server(
    folder: Path, jars: Sequence[Path], conf: Mapping[str, str]
) -> Iterator[ConnectServer]:
    """Run a server; its Python finds this package.

    :param folder: for its log and warehouse.
    :param conf: Spark's settings, static ones included.
    """
    home = installed_pyspark()
    assert home is not None
    port = _free_port()
    said = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": str(port),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.ui.enabled": "false",
        **({"spark.jars": ",".join(map(str, jars))} if jars else {}),
        **conf,
    }
    options = [word for key, value in said.items() for word in ("--conf", f"{key}={value}")]
    command = [str(home / "bin" / "spark-submit"), "--master", "local[2]", "--class", _CLASS]
    log = folder / "connect-server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *options, "spark-internal"],
            env={**os.environ, **environment(), "PYTHONPATH": str(TESTS.parent)},
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=folder,
            start_new_session=True,
        )
    server = ConnectServer(f"sc://127.0.0.1:{port}", log, process)
    try:
        _await(server, port)
        yield server
    finally:
        server.kill()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _await(server: ConnectServer, port: int) -> None:
    until = time.monotonic() + _SECONDS
    while time.monotonic() < until:
        assert server.process.poll() is None, server.log.read_text()[-2000:]
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError(f"The server does not listen: {server.log.read_text()[-2000:]}")
