"""A minimal client over blocking gRPC and HTTP, without package code that could hide an error."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import grpc

from airflow_provider_sfevents.proto import pubsub_api_pb2 as pb, pubsub_api_pb2_grpc as rpc

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PREFIX = "sfdc.platform.eventbus.grpc."
ANSWER_SECONDS = 60.0
"""No answer, anywhere, may take longer."""


class Refused(NamedTuple):
    """End of a call: status, error code without its prefix, message, trailers."""

    status: str
    code: str
    message: str
    trailers: dict[str, str]

    @property
    def what(self) -> tuple[str, str]:
        """Status and code, which most rules concern."""
        return self.status, self.code


class Counter:
    """Events delivered to this suite, which count against the org's daily allowance."""

    def __init__(self) -> None:
        self.delivered = 0
        self.published = 0


class StreamError(AssertionError):
    """A stream ended or continued against expectation."""


class Stream:
    """A call with a stream of requests and a stream of responses.

    :param method: of the stub.
    :param request: class of its requests.
    """

    def __init__(
        self,
        method: Callable[..., Any],
        request: type[Any],
        headers: tuple[tuple[str, str], ...],
        counter: Counter,
    ) -> None:
        self._request = request
        self._counter = counter
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._peeked: Any = None
        self._call = method(iter(self._requests.get, None), metadata=headers)
        threading.Thread(target=self._collect, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._call.cancel()  # of no effect on a call that has ended
        self._requests.put(None)

    def _collect(self) -> None:
        try:
            for response in self._call:
                self._counter.delivered += len(getattr(response, "events", ()))
                self._answers.put(response)
        except grpc.RpcError:
            pass  # how it ended is asked of the call
        self._answers.put(None)

    def ask(self, **fields: Any) -> None:
        self._requests.put(self._request(**fields))

    def half_close(self) -> None:
        self._requests.put(None)

    def peek(self) -> None:
        """Wait for a response, which the next `read` returns.

        :raises StreamError: when there is none.
        """
        self._peeked = self.read()

    def read(self, seconds: float = ANSWER_SECONDS) -> Any:
        """Next response.

        :raises StreamError: when there is none.
        """
        if self._peeked is not None:
            peeked, self._peeked = self._peeked, None
            return peeked
        try:
            answer = self._answers.get(timeout=seconds)
        except queue.Empty:
            raise StreamError(f"no response within {seconds} s, and the stream is open") from None
        if answer is None:
            raise StreamError(f"the stream has ended: {ending(self._call)}")
        return answer

    def is_silent(self, seconds: float) -> bool:
        """True if no response and no end comes for this time."""
        try:
            self._answers.get(timeout=seconds)
        except queue.Empty:
            return True
        return False

    def take(self, events: int, seconds: float = ANSWER_SECONDS) -> list[Any]:
        """Read until `count` events have come, skipping keepalives."""
        found: list[Any] = []
        while len(found) < events:
            found += self.read(seconds).events
        return found

    def end(self, seconds: float = ANSWER_SECONDS) -> Refused:
        """Read a stream to its end and return the end."""
        until = time.monotonic() + seconds
        while True:
            try:
                answer = self._answers.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                raise StreamError(f"the stream is still open after {seconds} s") from None
            if answer is None:
                return ending(self._call)


class Client:
    """The six RPCs, with one set of headers.

    :param counter: of what is delivered and published.
    """

    def __init__(self, channel: grpc.Channel, headers: Mapping[str, str], counter: Counter) -> None:
        self.stub: Any = rpc.PubSubStub(channel)  # type: ignore[no-untyped-call]
        self.headers = tuple(headers.items())
        self.counter = counter
        self._channel = channel

    def with_headers(self, headers: Mapping[str, str]) -> Client:
        return Client(self._channel, headers, self.counter)

    def get_topic(self, name: str) -> Any:
        return self._unary(self.stub.GetTopic, pb.TopicRequest(topic_name=name))

    def get_schema(self, schema_id: str) -> Any:
        return self._unary(self.stub.GetSchema, pb.SchemaRequest(schema_id=schema_id))

    def publish(self, topic: str, *events: pb.ProducerEvent, **fields: Any) -> Any:
        request = pb.PublishRequest(topic_name=topic, events=events, **fields)
        self.counter.published += len(events)
        return self._unary(self.stub.Publish, request)

    def subscribe(self, **first: Any) -> Stream:
        """Subscribe; a given field makes a first request."""
        return self._stream(self.stub.Subscribe, pb.FetchRequest, first)

    def managed(self, **first: Any) -> Stream:
        """Open a managed subscription likewise."""
        return self._stream(self.stub.ManagedSubscribe, pb.ManagedFetchRequest, first)

    def publishing(self, **first: Any) -> Stream:
        """Open a stream of publish requests likewise."""
        return self._stream(self.stub.PublishStream, pb.PublishRequest, first)

    def _stream(self, method: Any, request: type[Any], first: dict[str, Any]) -> Stream:
        stream = Stream(method, request, self.headers, self.counter)
        if first:
            stream.ask(**first)
        return stream

    def _unary(self, method: Any, request: Any) -> Any:
        return method(request, metadata=self.headers, timeout=ANSWER_SECONDS)


def refused(call: Callable[..., Any], *arguments: Any, **more: Any) -> Refused:
    """Refusal of a call that must fail."""
    try:
        answer = call(*arguments, **more)
    except grpc.RpcError as error:
        return ending(error)
    raise AssertionError(f"it was not refused, but answered with {answer}")


def ending(call: Any) -> Refused:
    """End of a call."""
    trailers = {key: str(value) for key, value in call.trailing_metadata() or ()}
    code = trailers.get("error-code", "").removeprefix(PREFIX)
    return Refused(call.code().name, code, call.details() or "", trailers)


def opened(endpoint: str, *, plaintext: bool, trusted: bytes | None) -> grpc.Channel:
    """Channel with room for what Salesforce may send.

    :param trusted: certificates in PEM; those that gRPC brings along where there are none.
    """
    options = [("grpc.max_send_message_length", -1)]
    if plaintext:
        return grpc.insecure_channel(endpoint, options)
    return grpc.secure_channel(endpoint, grpc.ssl_channel_credentials(trusted), options)
