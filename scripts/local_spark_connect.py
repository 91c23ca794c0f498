"""A Spark Connect server on this machine, for `make ui` and the tests.

It runs in a driver that waits (`spark_connect_driver`), with one Python for all sessions.
Spark's class `SparkConnectServer` keeps a Python daemon for each session.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from uuid import uuid4

from scripts.local_salesforce import free_port
from scripts.processes import CannotRunError, deferred_signals, end, start, what_went_wrong

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator, Mapping, Sequence

READY_SECONDS = 240
CALL_SECONDS = 5.0
_DRIVER = Path(__file__).with_name("spark_connect_driver.py")
ISOLATION = "spark.sql.artifact.isolation.enabled"
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSparkConnect:
    """A running server.

    :param log: takes the server's output.
    """

    port: int
    ui_port: int
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        """Address for a Spark Connect client."""
        return f"sc://127.0.0.1:{self.port}"

    @property
    def ui(self) -> str:
        """Address of the server's Spark UI."""
        return f"http://127.0.0.1:{self.ui_port}/"

    def connection(self) -> dict[str, object]:
        """An Airflow connection of type `spark_connect`."""
        return {"conn_type": "spark_connect", "host": "sc://127.0.0.1", "port": self.port}

    def warm_up(self) -> None:
        """Run Python and merge a row, so that the first task need not wait for Spark to load both.

        :raises CannotRunError: the server cannot run it.
        """
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
        from pyspark.sql.functions import udf

        from airflow_provider_sfevents.spark.tables.sessions import few_rows

        session = SparkSession.builder.remote(self.url).create()
        try:
            session.range(1).select(udf(lambda number: number, "long")("id")).collect()
            with TemporaryDirectory(dir=self.log.parent) as folder, few_rows(session):
                session.conf.set("spark.databricks.delta.snapshotPartitions", "2")
                table = f"delta.`{folder}/table`"
                session.sql(f"CREATE TABLE {table} (id LONG) USING delta")
                session.sql(
                    f"MERGE INTO {table} AS old USING (SELECT * FROM range(1)) AS new "  # noqa: S608 - our own
                    "ON old.id = new.id WHEN MATCHED THEN UPDATE SET * "
                    "WHEN NOT MATCHED THEN INSERT *"
                )
        except PySparkException as error:
            said = str(error).strip().splitlines()[0]
            raise CannotRunError(
                f"the Spark Connect server cannot merge a row: {said}. See {self.log}"
            ) from error
        finally:
            session.stop()

    def kill(self) -> None:
        """End the server and all of its processes at once, as a lost machine would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    @classmethod
    @contextlib.contextmanager
    def running(
        cls,
        folder: Path,
        environment: Mapping[str, str],
        *,
        jars: Sequence[str] = (),
        conf: Mapping[str, str] | None = None,
        port: int | None = None,
    ) -> Iterator[LocalSparkConnect]:
        """Start a server, and end it and what it started after the block.

        :param folder: takes the server's log and working files.
        :param jars: of the table formats; with a Delta jar the server gets Delta's settings.
        :param conf: further settings of the server.
        :raises CannotRunError: it ended, or does not take connections.
        """
        port, ui_port = port or free_port(), free_port()
        is_delta = any("delta-spark" in jar for jar in jars)
        settings = {
            ISOLATION: "false",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.ui.port": str(ui_port),
            "spark.log.level": "WARN",
            "spark.driver.extraJavaOptions": (
                "-XX:+UseSerialGC -XX:MinHeapFreeRatio=20 -XX:MaxHeapFreeRatio=40"
            ),
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
            **(_DELTA if is_delta else {}),
            **(conf or {}),
        }
        command = ["spark-submit", "--master", "local[2]"]
        command += [
            part for key, value in settings.items() for part in ("--conf", f"{key}={value}")
        ]
        command += ["--jars", ",".join(jars)] if jars else []
        log = folder / "spark-connect.log"
        with deferred_signals():
            process = start(
                [*command, str(_DRIVER)], log=log, environment=environment, folder=folder
            )
        try:
            server = cls(port=port, ui_port=ui_port, log=log, process=process)
            server._wait_ready()
            yield server
        finally:
            end([process])

    def _wait_ready(self) -> None:
        """Wait for the answer to a client's request.

        :raises CannotRunError: the server ended, or time is up.
        """
        until = time.monotonic() + READY_SECONDS
        while refusal := self._refusal():
            if self.process.poll() is not None:
                why = "; ".join(what_went_wrong(self.log))
                raise CannotRunError(f"the Spark Connect server ended: {why}. See {self.log}")
            if time.monotonic() > until:
                said = "; ".join(what_went_wrong(self.log))
                raise CannotRunError(
                    f"the Spark Connect server was not ready after {READY_SECONDS} s: {refusal} "
                    f"Its log: {said}. See {self.log}"
                )
            time.sleep(0.2)

    def _refusal(self) -> str:
        """Why the server does not answer a client's request; empty if it does."""
        import grpc
        from pyspark.sql.connect.proto import base_pb2 as pb2
        from pyspark.sql.connect.proto.base_pb2_grpc import SparkConnectServiceStub

        asked = pb2.AnalyzePlanRequest(session_id=str(uuid4()))
        asked.spark_version.SetInParent()
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            service = SparkConnectServiceStub(channel)
            try:
                service.AnalyzePlan(asked, timeout=CALL_SECONDS)
                ended = pb2.ReleaseSessionRequest(session_id=asked.session_id)
                service.ReleaseSession(ended, timeout=CALL_SECONDS)
            except grpc.RpcError as error:
                return f"{error.code().name}: {error.details()}"
        return ""
