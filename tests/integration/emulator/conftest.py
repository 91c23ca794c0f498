"""Minimal clients of the emulator: gRPC with generated stubs, HTTP, and the command line."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import grpc
import pytest
from grpc import aio

from airflow_provider_sfevents.emulator import Emulator, Knobs
from airflow_provider_sfevents.emulator.__main__ import main
from airflow_provider_sfevents.emulator.cli.remote import TOKEN_VARIABLE
from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb, pubsub_api_pb2_grpc as rpc
from tests.integration.emulator.event_calls import EventCall

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from airflow_provider_sfevents.emulator import Org

PREFIX = "sfdc.platform.eventbus.grpc."


class Refused(NamedTuple):
    """Failure of an RPC: status, error code without its prefix, message, trailers."""

    status: str
    code: str
    message: str
    trailers: dict[str, str]


class Stream(EventCall):
    """A Subscribe call."""

    def __init__(self, call: Any, topic: str) -> None:
        super().__init__(call)
        self.topic = topic

    async def ask(self, num: int, *, topic: str | None = None, **first: Any) -> None:
        await self.call.write(
            pb.FetchRequest(
                topic_name=self.topic if topic is None else topic, num_requested=num, **first
            )
        )


class Client:
    """One gRPC connection with one set of headers."""

    def __init__(self, channel: aio.Channel, headers: dict[str, str]) -> None:
        self.stub: Any = rpc.PubSubStub(channel)  # type: ignore[no-untyped-call]
        self.headers = tuple(headers.items())

    async def get_topic(self, name: str) -> Any:
        return await self.stub.GetTopic(pb.TopicRequest(topic_name=name), metadata=self.headers)

    async def get_schema(self, schema_id: str) -> Any:
        return await self.stub.GetSchema(
            pb.SchemaRequest(schema_id=schema_id), metadata=self.headers
        )

    async def publish(self, topic: str, *events: pb.ProducerEvent) -> Any:
        return await self.stub.Publish(
            pb.PublishRequest(topic_name=topic, events=events), metadata=self.headers
        )

    async def subscribe(
        self, topic: str, num: int = 100, *, preset: int = pb.EARLIEST, replay_id: bytes = b""
    ) -> Stream:
        stream = Stream(self.stub.Subscribe(metadata=self.headers), topic)
        await stream.ask(num, replay_preset=preset, replay_id=replay_id)
        return stream

    async def take_again(self, topic: str, count: int, **start: Any) -> list[Any]:
        """First events of a stream after a cut; gRPC may try the dead connection once more."""
        async with asyncio.timeout(100):
            while True:
                try:
                    return await (await self.subscribe(topic, **start)).take(count)
                except aio.AioRpcError as error:
                    if error.code() is not grpc.StatusCode.UNAVAILABLE:
                        raise

    @staticmethod
    async def refused(work: Awaitable[Any]) -> Refused:
        """Await a call that must fail and return its failure."""
        with pytest.raises(aio.AioRpcError) as error:
            await work
        trailers = {key: str(value) for key, value in error.value.trailing_metadata() or ()}
        code = trailers.get("error-code", "").removeprefix(PREFIX)
        return Refused(error.value.code().name, code, error.value.details() or "", trailers)


def headers_of(bus: Emulator, org: Org | None = None) -> dict[str, str]:
    extra = bus.connection("session", org)["extra"]
    return {
        "accesstoken": extra["session_token"],
        "instanceurl": extra["instance_url"],
        "tenantid": extra["org_id"],
    }


def trusting(ca_file: str) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(Path(ca_file).read_bytes())


@asynccontextmanager
async def opened(bus: Emulator, headers: dict[str, str]) -> AsyncIterator[Client]:
    # Tests of a server that comes back need not wait for gRPC's first second.
    options = [
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 100),
        ("grpc.use_local_subchannel_pool", 1),  # each client has connections of its own
    ]
    if bus.ca_file:
        channel = aio.secure_channel(bus.endpoint, trusting(bus.ca_file), options=options)
    else:
        channel = aio.insecure_channel(bus.endpoint, options=options)
    async with channel:
        yield Client(channel, headers)


@pytest.fixture(scope="session", autouse=True)
def token_in_environment() -> Iterator[str]:
    """Set one admin token for every emulator and every command line of these tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(TOKEN_VARIABLE, "t0ken-of-the-tests")
        yield "t0ken-of-the-tests"


@pytest.fixture
def talk() -> Callable[..., Any]:
    """Run a scenario of a client with an emulator, with valid headers or the given ones."""

    def run(
        bus: Emulator,
        scenario: Callable[[Client], Awaitable[Any]],
        *,
        org: Org | None = None,
        headers: dict[str, str] | None = None,
    ) -> Any:
        async def go() -> Any:
            async with opened(bus, headers_of(bus, org) if headers is None else headers) as client:
                return await scenario(client)

        outcome = asyncio.run(go())
        bus.check()
        return outcome

    return run


class Said(NamedTuple):
    """Exit code, output and errors of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """Lines of the output, or of the errors if the command failed."""
        return (self.err if self.code else self.out).splitlines()


@pytest.fixture
def says(capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Run a command in this process, on the emulator with a URL if one is given."""

    def run(*arguments: str, url: str = "") -> Said:
        code = main([*arguments, *(("--url", url) if url else ())])
        return Said(code, *capsys.readouterr())

    return run


@pytest.fixture
def plain() -> Iterator[Emulator]:
    """An emulator without TLS, checked for errors of its own at the end."""
    with Emulator(knobs=Knobs(half_close_seconds=0.01)) as emulator:
        emulator.define_event("Order__e", {"Number__c": "Text"})
        yield emulator
        emulator.check()


class Answer(NamedTuple):
    """HTTP answer; `body` is parsed if it is JSON."""

    status: int
    body: Any
    headers: dict[str, str]


@pytest.fixture
def http() -> Callable[..., Answer]:
    """Send a GET, or a POST of a form."""

    def ask(
        url: str,
        form: dict[str, str] | None = None,
        *,
        headers: dict[str, str] | None = None,
        ca_file: str = "",
    ) -> Answer:
        body = None if form is None else urlencode(form).encode()
        request = Request(url, data=body, headers=headers or {})  # noqa: S310
        context = ssl.create_default_context(cafile=ca_file) if ca_file else None
        try:
            with urlopen(request, timeout=10, context=context) as answer:  # noqa: S310
                return _answer(answer.status, answer.read(), answer.headers)
        except HTTPError as error:
            with error:
                return _answer(error.code, error.read(), error.headers)

    return ask


def _answer(status: int, body: bytes, headers: Any) -> Answer:
    is_json = "json" in headers.get("content-type", "")
    return Answer(
        status,
        json.loads(body) if is_json else body.decode(),
        {k.lower(): v for k, v in headers.items()},
    )
