"""Metrics leave a process by Airflow's statistics, in each form that Airflow has."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from typing_extensions import override

from airflow_provider_sfevents.emulator import Emulator, Knobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.integration.hooks.conftest import Connect

FLUSHES = """
from airflow.sdk._shared.observability.metrics import stats
getattr(stats._get_backend(), "flush", lambda: None)()
"""

ASKS = """
import asyncio
from airflow_provider_sfevents.hooks.sfevents import SfEventsHook
from airflow_provider_sfevents.hooks.outgoing.task_metrics import emit_in_triggerer
from airflow_provider_sfevents.exceptions import SfEventsError

emit_in_triggerer([])  # a task's process has Airflow's statistics
try:
    asyncio.run(SfEventsHook("sf_test").require_allowance("/event/Order__e", 10))
except SfEventsError:
    pass
"""

SENDS = """
from airflow_provider_sfevents.batches.position.position_metrics import Metric
from airflow_provider_sfevents.hooks.outgoing.task_metrics import emit_in_triggerer

labels = {"consumer": "orders", "topic": "/event/Order__e"}
emit_in_triggerer(
    [
        Metric(name="events_landed", value=10, labels=labels),
        Metric(name="extra_deliveries", value=0, labels={**labels, "cause": "in_memory"}),
        Metric(name="expiry_time", value=1767355200, labels=labels),
        Metric(name="batch_seconds", value=1.5, labels={**labels, "stage": "fetch"}),
    ]
)
"""


def send(airflow_home: str, code: str = SENDS, **metrics: str) -> None:
    """Send the metrics in a process of its own, as a triggerer's child does."""
    own = {f"AIRFLOW__METRICS__{name.upper()}": value for name, value in metrics.items()}
    subprocess.run(
        [sys.executable, "-c", code + FLUSHES],
        env={**os.environ, **own, "AIRFLOW_HOME": airflow_home},
        check=True,
        timeout=120,
    )


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        found.settimeout(60)
        yield found


def received(server: socket.socket, count: int) -> list[str]:
    """Return so many lines about this package's metrics; Airflow sends some of its own."""
    came: list[str] = []
    while len(came) < count:
        lines = server.recv(65_536).decode().splitlines()
        came += [line for line in lines if "sfevents." in line]
    return came


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (
            {"statsd_on": "True"},
            [
                "airflow.sfevents.events_landed.orders.event_Order__e:10|c",
                "airflow.sfevents.expiry_time.orders.event_Order__e:1767355200|g",
                "airflow.sfevents.batch_seconds.orders.event_Order__e.fetch:1500.000000|ms",
            ],
        ),
        (
            {"statsd_on": "True", "statsd_influxdb_enabled": "True"},
            [
                "airflow.sfevents.events_landed,consumer=orders,topic=event_Order__e:10|c",
                "airflow.sfevents.expiry_time,consumer=orders,topic=event_Order__e:1767355200",
                "airflow.sfevents.batch_seconds,consumer=orders,topic=event_Order__e,stage=fetch:",
            ],
        ),
        (
            {"statsd_datadog_enabled": "True"},
            [
                "airflow.sfevents.events_landed:10|c|#consumer:orders,topic:event_Order__e",
                "airflow.sfevents.expiry_time:1767355200|g|#consumer:orders,topic:event_Order__e",
                "airflow.sfevents.batch_seconds:1500.0|ms|#consumer:orders,topic:event_Order__e",
            ],
        ),
    ],
    ids=["StatsD", "influx", "Datadog"],
)
def test_statsd(form: dict[str, str], expected: list[str], tmp_path: object) -> None:
    """Without tags consumer and topic are in the name, with tags beside it; zeros are not sent."""
    with listening() as server:
        port = str(server.getsockname()[1])
        send(str(tmp_path), statsd_host="127.0.0.1", statsd_port=port, **form)
        came = received(server, len(expected))
    assert [one[: len(want)] for one, want in zip(came, expected, strict=True)] == expected


def test_an_allowance_that_is_too_low_is_measured(connect: Connect, tmp_path: object) -> None:
    """A task that may not begin, since too few deliveries are left, tells how many there are."""
    with listening() as server, Emulator(sample=True, knobs=Knobs(delivery_allocation=9)) as bus:
        connect(bus.connection())
        port = str(server.getsockname()[1])
        tagged = {"statsd_on": "True", "statsd_influxdb_enabled": "True"}
        send(str(tmp_path), ASKS, statsd_host="127.0.0.1", statsd_port=port, **tagged)
        came = received(server, 2)
    labels = "connection=sf_test,allowance=DailyDeliveredPlatformEvents"
    assert came == [
        f"airflow.sfevents.allowance_left,{labels}:9|g",
        f"airflow.sfevents.allowance_most,{labels}:9|g",
    ]


class _Collector(BaseHTTPRequestHandler):
    """Keeps what an OpenTelemetry exporter posts."""

    came: list[ExportMetricsServiceRequest]
    has_come: threading.Event

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.came.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        self.has_come.set()

    @override
    def log_message(self, format: str, *args: object) -> None: ...


def test_opentelemetry(tmp_path: object) -> None:
    """An OpenTelemetry collector gets the metrics with consumer and topic as attributes."""
    _Collector.came, _Collector.has_come = [], threading.Event()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Collector) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = str(server.server_address[1])
        send(str(tmp_path), otel_on="True", otel_host="127.0.0.1", otel_port=port)
        assert _Collector.has_come.wait(60)
        server.shutdown()
    metrics = {
        metric.name: metric
        for one in _Collector.came
        for resource in one.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }
    landed = metrics["airflow.sfevents.events_landed"].sum.data_points[0]
    assert {one.key: one.value.string_value for one in landed.attributes} == {
        "consumer": "orders",
        "topic": "event_Order__e",
    }
    assert metrics["airflow.sfevents.expiry_time"].gauge.data_points
