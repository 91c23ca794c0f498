"""A stand-in for the REST API of a Spark standalone master.

`definitions/cluster/spark-submit` starts its drivers.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any

from typing_extensions import override

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def cluster_connection(port: int) -> dict[str, Any]:
    """Airflow's connection to it, in cluster mode."""
    extra = {"deploy-mode": "cluster", "rest-port": port}
    return {"conn_type": "spark", "host": "spark://127.0.0.1", "port": port, "extra": extra}


@contextmanager
def spark_master(folder: Path) -> Iterator[int]:
    """Answers for the drivers in `folder`, by Spark's REST protocol; the port."""

    class Master(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """`/v1/submissions/status/<driver>`."""
            driver = self.path.rpartition("/")[2]
            self._say(submissionId=driver, driverState=driver_state(folder, driver), success=True)

        def do_POST(self) -> None:
            """`/v1/submissions/kill/<driver>`."""
            driver = self.path.rpartition("/")[2]
            os.killpg(int((folder / f"{driver}.pid").read_text()), signal.SIGKILL)
            (folder / f"{driver}.ended").write_text("137")
            self._say(submissionId=driver, success=True)

        def _say(self, **said: Any) -> None:
            # Airflow reads it line by line, and by " : ".
            body = json.dumps(said, indent=1, separators=(",", " : ")).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        @override
        def log_message(self, *_: Any) -> None:
            """Nothing into the tests' output."""

    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Master)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def driver_state(folder: Path, driver: str) -> str:
    """State of a driver as the master reports it."""
    ended = folder / f"{driver}.ended"
    if not ended.exists():
        return "RUNNING"
    return "FINISHED" if ended.read_text().strip() == "0" else "FAILED"
