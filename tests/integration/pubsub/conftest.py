"""Pub/Sub API on a real socket whose responses a test scripts, for servers that misbehave."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import grpc
import grpc.aio
import pytest
from typing_extensions import override

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb2
from airflow_provider_sfevents.proto.pubsub_api_pb2_grpc import (
    PubSubServicer,
    add_PubSubServicer_to_server,
)
from airflow_provider_sfevents.pubsub.auth.login import log_in
from airflow_provider_sfevents.pubsub.auth.secret import Secret
from airflow_provider_sfevents.pubsub.auth.session_cache import SessionCache
from airflow_provider_sfevents.pubsub.auth.settings import SessionToken, Settings
from airflow_provider_sfevents.pubsub.client import PubSubClient
from airflow_provider_sfevents.pubsub.clock import Clock
from airflow_provider_sfevents.pubsub.schema_cache import SchemaCache

if TYPE_CHECKING:
    from airflow_provider_sfevents.pubsub.auth.session import Session

ORG_ID = "00D000000000001EAA"
TOPIC = "/event/Order__e"
CODE_PREFIX = "sfdc.platform.eventbus.grpc."
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "Order__e",
        "namespace": "com.sforce.eventbus",
        "fields": [
            {"name": "CreatedDate", "type": "long", "doc": "CreatedDate:DateTime"},
            {"name": "CreatedById", "type": "string", "doc": "CreatedBy:EntityId"},
            {"name": "City__c", "type": ["null", "string"], "default": None},
        ],
    }
)


@pytest.fixture(scope="session", autouse=True)
async def one_loop(anyio_backend: str) -> None:
    """Keep one event loop for all tests: grpc.aio hands leftovers of a closed loop to the next."""


def replay_id(number: int) -> bytes:
    return number.to_bytes(8, "big") + b"\0\0"


def response(
    numbers: Iterable[int], pending: int, latest: int = 0, payload: bytes = b"x" * 10
) -> pb2.FetchResponse:
    """A response with the events of these numbers; a keepalive without numbers."""
    events = [
        pb2.ConsumerEvent(
            replay_id=replay_id(number),
            event=pb2.ProducerEvent(id=f"e{number}", schema_id="S", payload=payload),
        )
        for number in numbers
    ]
    return pb2.FetchResponse(
        events=events,
        latest_replay_id=events[-1].replay_id if events else replay_id(latest),
        pending_num_requested=pending,
        rpc_id="rpc-1",
    )


class SeenStream:
    """One Subscribe call as the server sees it."""

    def __init__(self, context: Any, headers: dict[str, str]) -> None:
        self.headers = headers
        self.requests: list[pb2.FetchRequest] = []
        self.half_closed = False
        self.delivered = 0
        self.highest_credit = 0
        self._context = context
        self._changed = asyncio.Condition()

    @property
    def credit(self) -> int:
        return sum(request.num_requested for request in self.requests) - self.delivered

    @property
    def start(self) -> str:
        first = self.requests[0]
        return first.replay_id.hex() or pb2.ReplayPreset.Name(first.replay_preset).lower()

    async def hear(self, requests: AsyncIterator[pb2.FetchRequest]) -> None:
        """Read requests until the client half-closes or the call ends."""
        try:
            async for request in requests:
                async with self._changed:
                    self.requests.append(request)
                    self.highest_credit = max(self.highest_credit, self.credit)
                    self._changed.notify_all()
        except grpc.aio.BaseError:
            return  # what the server's own side of an ended call raises, or a server that stops
        async with self._changed:
            self.half_closed = True
            self._changed.notify_all()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(condition)

    async def asked(self, events: int = 1) -> None:
        """Wait until the credit is so high."""
        await self.until(lambda: self.credit >= events)

    async def more(self) -> bool:
        """Wait until something may be delivered; False if the client has half-closed instead."""
        await self.until(lambda: self.credit > 0 or self.half_closed)
        return not self.half_closed

    async def closed(self) -> None:
        """Wait for the client's half-close."""
        await self.until(lambda: self.half_closed)

    def deliver(self, numbers: Iterable[int], payload: bytes = b"x" * 10) -> pb2.FetchResponse:
        numbers = list(numbers)
        self.delivered += len(numbers)
        return response(numbers, self.credit, payload=payload)

    async def fail(self, status: str, code: str = "", details: str = "it broke") -> None:
        await fail(self._context, status, code, details)


async def fail(context: Any, status: str, code: str = "", details: str = "it broke") -> None:
    trailers = (("error-code", CODE_PREFIX + code), ("rpc-id", "rpc-9")) if code else ()
    await context.abort(grpc.StatusCode[status], f"{details} rpcId: rpc-9", trailers)


Script = Callable[[SeenStream], AsyncIterator[pb2.FetchResponse]]


class ScriptedBus(PubSubServicer):
    """Each Subscribe call plays the next script; the last one is played again and again."""

    def __init__(self) -> None:
        self.scripts: list[Script] = []
        self.streams: list[SeenStream] = []
        self.open_streams = 0
        self.none_open = asyncio.Event()
        self.unary: list[tuple[str, dict[str, str]]] = []
        self.unary_failures: list[tuple[str, str]] = []
        self.refused_tokens: set[str] = set()
        self.topic = pb2.TopicInfo(
            topic_name=TOPIC, can_publish=True, can_subscribe=True, schema_id="S"
        )
        self.schemas = {"S": SCHEMA}
        self.published: list[pb2.PublishRequest] = []
        self.publish_failures: dict[int, tuple[str, str]] = {}  # by events published before
        self.endpoint = ""
        self._hearing: list[asyncio.Future[None]] = []

    @override
    async def Subscribe(self, requests: Any, context: Any) -> AsyncIterator[pb2.FetchResponse]:
        headers = _headers(context)
        stream = SeenStream(context, headers)
        self.streams.append(stream)
        self.open_streams += 1
        self.none_open.clear()
        self._hearing.append(asyncio.ensure_future(stream.hear(requests)))
        script = self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]
        try:
            await stream.asked()
            await self._check_token(headers, context)
            async for message in script(stream):
                yield message
        finally:
            self.open_streams -= 1
            if not self.open_streams:
                self.none_open.set()

    @override
    async def GetTopic(self, request: pb2.TopicRequest, context: Any) -> pb2.TopicInfo:
        await self._unary("GetTopic", context)
        return self.topic

    @override
    async def GetSchema(self, request: pb2.SchemaRequest, context: Any) -> pb2.SchemaInfo:
        await self._unary("GetSchema", context)
        return pb2.SchemaInfo(
            schema_id=request.schema_id, schema_json=self.schemas.get(request.schema_id, "")
        )

    @override
    async def Publish(self, request: pb2.PublishRequest, context: Any) -> pb2.PublishResponse:
        await self._unary("Publish", context)
        before = sum(len(published.events) for published in self.published)
        if before in self.publish_failures:
            await fail(context, *self.publish_failures[before])
        self.published.append(request)
        results = [
            pb2.PublishResult(correlation_key=event.id, replay_id=replay_id(number))
            for number, event in enumerate(request.events, 1)
        ]
        return pb2.PublishResponse(results=results, schema_id="S", rpc_id="rpc-2")

    async def _unary(self, method: str, context: Any) -> None:
        headers = _headers(context)
        self.unary.append((method, headers))
        await self._check_token(headers, context)
        if self.unary_failures:
            await fail(context, *self.unary_failures.pop(0))

    async def _check_token(self, headers: dict[str, str], context: Any) -> None:
        if headers.get("accesstoken") in self.refused_tokens:
            token = headers["accesstoken"]
            await fail(context, "UNAUTHENTICATED", "service.auth.error", f"no {token} here")


def _headers(context: Any) -> dict[str, str]:
    return {key: str(value) for key, value in context.invocation_metadata()}


@asynccontextmanager
async def serve(bus: ScriptedBus, credentials: Any = None) -> AsyncIterator[int]:
    """The port of the bus, with TLS if there are credentials."""
    server = grpc.aio.server()
    add_PubSubServicer_to_server(bus, server)  # type: ignore[no-untyped-call]
    if credentials is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    try:
        yield port
    finally:
        await server.stop(grace=0)


@pytest.fixture
async def bus(anyio_backend: str) -> AsyncIterator[ScriptedBus]:
    bus = ScriptedBus()
    async with serve(bus) as port:
        bus.endpoint = f"127.0.0.1:{port}"
        yield bus


def session_settings(endpoint: str) -> Settings:
    login = SessionToken(
        token=Secret("00D000000000001!secret"), instance_url="https://acme.my.salesforce.com"
    )
    return Settings(login=login, endpoint=endpoint, plaintext=True)


@pytest.fixture
async def client(bus: ScriptedBus) -> AsyncIterator[PubSubClient]:
    """A client with empty caches and without backoff."""
    async with new_client(session_settings(bus.endpoint)) as client:
        yield client


async def log_in_as_user(settings: Settings, clock: Clock) -> Session:
    """A login that returns the user, so that the org is not asked for it."""
    return replace(await log_in(settings, clock), user_id="005000000000001AAA")


def new_client(settings: Settings) -> PubSubClient:
    return PubSubClient(
        settings,
        sessions=SessionCache(log_in=log_in_as_user),
        schemas=SchemaCache(),
        clock=Clock(chance=lambda: 0.0),
    )


@dataclass
class LoginServer:
    """Answers HTTP as scripted, and records the received forms."""

    answers: list[tuple[int, dict[str, str], Any]] = field(default_factory=list)
    forms: list[dict[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    url: str = ""

    def grant(self, token: str = "00D000000000001!granted", **more: str) -> None:  # noqa: S107
        usual = {"access_token": token, "instance_url": "https://acme.my.salesforce.com"}
        self.answers.append((200, {}, {**usual, **more}))

    def refuse(self, error: str, description: str, **headers: str) -> None:
        self.answers.append((400, headers, {"error": error, "error_description": description}))

    def answer(self, path: str, body: bytes) -> tuple[int, dict[str, str], bytes]:
        self.paths.append(path)
        self.forms.append(dict(parse_qsl(body.decode())))
        status, headers, value = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return status, headers, (value if isinstance(value, str) else json.dumps(value)).encode()


def _handler(told: LoginServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, headers, text = told.answer(self.path, body)
            self.send_response_only(status)  # the test says what the Date header is
            for key, value in {**headers, "content-length": str(len(text))}.items():
                self.send_header(key, value)
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST  # noqa: N815 - the name http.server calls

        @override
        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: what was asked is in `paths`."""

    return Handler


@pytest.fixture
def login_server() -> Iterator[LoginServer]:
    told = LoginServer()
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(told)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        told.url = f"http://127.0.0.1:{server.server_port}"
        yield told
        server.shutdown()
        thread.join()
