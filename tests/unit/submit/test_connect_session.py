"""The session of a Spark Connect server: addresses, errors, and a server that is not there."""

from __future__ import annotations

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from pyspark.sql.connect.client.reattach import ExecutePlanResponseReattachableIterator as Requests
from pyspark.sql.connect.proto import base_pb2 as pb2
from pyspark.sql.connect.proto.base_pb2_grpc import (
    SparkConnectServiceServicer,
    add_SparkConnectServiceServicer_to_server,
)
from pyspark.sql.connect.session import SparkSession
from typing_extensions import override

from airflow_provider_sfevents.exceptions import ConfigurationError, TransportError
from airflow_provider_sfevents.submit import connect_session

NOTHING = "sc://127.0.0.1:1"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sc://spark:15002/;user_id=me;token=hidden", "sc://spark:15002"),
        ("sc://spark:15002/", "sc://spark:15002"),
        ("sc://spark", "sc://spark"),
    ],
)
def test_an_address_is_shown_without_user_and_token(url: str, shown: str) -> None:
    """The address in logs and errors has no parameters."""
    assert connect_session.shown_address(url) == shown


YARN = "spark.org.apache.hadoop.yarn.server.webproxy.amfilter.AmIpFilter.param.PROXY_URI_BASES"
AT_PORT = {"spark.driver.host": "10.0.0.7", "spark.ui.port": "4050"}


@pytest.mark.parametrize(
    ("config", "link"),
    [
        (AT_PORT, "http://10.0.0.7:4050/"),
        ({**AT_PORT, "spark.ui.port": "0"}, ""),
        ({**AT_PORT, "spark.ui.port": None}, ""),
        ({**AT_PORT, "spark.ui.enabled": "false"}, ""),
        ({**AT_PORT, "spark.driver.appUIAddress": "http://driver:4040"}, "http://driver:4040"),
        (
            {**AT_PORT, YARN: "http://rm/proxy/app-1,http://rm2/proxy/app-1"},
            "http://rm/proxy/app-1",
        ),
        (
            {**AT_PORT, "spark.ui.reverseProxyUrl": "https://spark/", "spark.app.id": "app-1"},
            "https://spark/proxy/app-1/",
        ),
    ],
)
def test_the_link_of_the_spark_ui_is_of_the_servers_settings(
    config: dict[str, str | None], link: str
) -> None:
    """A proxy comes before the driver's address; a port that Spark chooses is not told."""
    assert connect_session.ui_link(config) == link


def test_the_first_line_of_an_error_has_no_stack_trace() -> None:
    """An error without a text is shown by its name."""
    error = RuntimeError("[X] It failed.\n\nJVM stacktrace:\norg.apache.spark")
    assert connect_session.first_line(error) == "[X] It failed."
    assert connect_session.first_line(RuntimeError()) == "RuntimeError"


def test_a_server_that_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the address; PySpark's choice of functions is as before."""
    monkeypatch.delenv("SPARK_CONNECT_MODE_ENABLED", raising=False)
    with (
        pytest.raises(TransportError, match=r"sc://127\.0\.0\.1:1 does not answer within 0\.2 s"),
        connect_session.open_session(f"{NOTHING}/;token=hidden", seconds=0.2),
    ):
        pytest.fail("there is no server")
    assert "SPARK_CONNECT_MODE_ENABLED" not in os.environ


@pytest.mark.parametrize("address", ["http://spark", "sc://:15002", "sc://spark/a"])
def test_what_is_no_address(address: str) -> None:
    """It is refused with its value and the remedy, without the token."""
    with (
        pytest.raises(ConfigurationError) as raised,
        connect_session.open_session(f"{address}/;token=hidden", seconds=0.2),
    ):
        pytest.fail("this is no address")
    assert f"'{address}' is not the address of a Spark Connect server" in str(raised.value)
    assert "hidden" not in str(raised.value)


class _Hangs(SparkConnectServiceServicer):  # type: ignore[misc]
    """A server that carries out statements and never answers when they are released."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.ended = threading.Event()

    @override
    def Config(self, request: Any, context: Any) -> Any:
        return pb2.ConfigResponse(session_id=request.session_id)

    @override
    def ExecutePlan(self, request: Any, context: Any) -> Any:
        yield pb2.ExecutePlanResponse(
            session_id=request.session_id,
            operation_id=request.operation_id,
            response_id="1",
            result_complete=pb2.ExecutePlanResponse.ResultComplete(),
        )

    @override
    def ReleaseExecute(self, request: Any, context: Any) -> Any:
        self.asked.set()
        self.ended.wait()
        return pb2.ReleaseExecuteResponse()

    @override
    def ReleaseSession(self, request: Any, context: Any) -> Any:
        self.ended.wait()
        return pb2.ReleaseSessionResponse()


@pytest.mark.timeout(120)
def test_a_server_that_does_not_answer_any_more_holds_no_task() -> None:
    """A session ends although requests in the background have no answer yet."""
    hangs = _Hangs()
    server = grpc.server(ThreadPoolExecutor(8))
    add_SparkConnectServiceServicer_to_server(hangs, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with connect_session.open_session(f"sc://127.0.0.1:{port}", seconds=60) as session:
            session.spark.sql("SELECT 1")
            assert hangs.asked.wait(60)
    finally:
        hangs.ended.set()
        server.stop(None)


def test_a_closed_session_is_not_closed_again_when_python_collects_it() -> None:
    """The requests of another session that are under way are neither waited for nor ended."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        opened = SparkSession.builder.remote(NOTHING).create()
        connect_session.ConnectSession(opened, NOTHING).forget()
    requests = Requests._get_or_create_release_thread_pool()
    try:
        del opened
        gc.collect()
        assert requests.submit(int).result() == 0
    finally:
        Requests.shutdown()
