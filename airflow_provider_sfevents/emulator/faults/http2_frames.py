"""HTTP/2 framing for the relay: frame borders, open streams, RST_STREAM and GOAWAY. No I/O.

The numbers are those of RFC 9113. Headers stay compressed: only frame types, flags and stream ids
are read.
"""

from __future__ import annotations

import re
import secrets

from airflow_provider_sfevents.emulator.errors import EmulatorError

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
UNSUPPORTED = (
    b"HTTP/1.1 415 Unsupported Media Type\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
)
"""Answer of the service's front end to HTTP/1.1 (live service); its body is not known."""
_HTTP1 = re.compile(rb"[A-Z]+ \S+ HTTP/1\.[01]\r\n")
HOWS = ("reset", "goaway", "rst_stream", "half_open")
"""Ways to cut a connection or a stream of it."""
ERRORS = {
    "NO_ERROR": 0,
    "INTERNAL_ERROR": 2,
    "REFUSED_STREAM": 7,
    "CANCEL": 8,
    "ENHANCE_YOUR_CALM": 11,
}
_HEADER = 9
_DATA, _HEADERS, _RST_STREAM, _GOAWAY = 0, 1, 3, 7
_END_STREAM, _END_HEADERS = 0x1, 0x4
_CONTINUATION = 9
_MESSAGE_HEADER = 5  # gRPC's own: compressed or not, length
_MARK = secrets.token_bytes(15)  # random per process, so that no payload contains it


def order(how: str) -> bytes:
    """Build an order: a message of a servicer at which the relay cuts the connection.

    Everything sent before it reaches the client, to the byte; the order itself does not.
    """
    if how not in HOWS:
        raise EmulatorError(f"how={how!r} is not one of {', '.join(HOWS)}")
    return _MARK + bytes([HOWS.index(how)])


_ORDERS = {
    b"\0" + len(order(how)).to_bytes(_MESSAGE_HEADER - 1, "big") + order(how): how for how in HOWS
}
_ORDER_BYTES = _MESSAGE_HEADER + len(_MARK) + 1


def is_http1(received: bytes) -> bool:
    """True if the first bytes of a connection are an HTTP/1 request, for example of a browser."""
    return _HTTP1.match(received) is not None


class FrameBuffer:
    """Splits bytes into whole frames.

    :param preface: bytes before the first frame. If they are missing, the data is not HTTP/2 and is
        not split.
    """

    def __init__(self, preface: bytes = b"") -> None:
        self._preface = preface
        self._rest = b""
        self.foreign = False

    def feed(self, received: bytes) -> list[bytes]:
        """Whole frames with their headers; the preface counts as a frame."""
        data = self._rest + received if self._rest else received
        frames: list[bytes] = []
        at = len(self._preface)
        if at:
            self.foreign = self.foreign or data[:at] != self._preface[: len(data)]
            if not self.foreign and len(data) < at:
                self._rest = data
                return frames
            frames.append(data[:at])
            self._preface = b""
        if self.foreign:
            self._rest = b""
            return [data]
        while len(data) - at >= _HEADER:
            end = at + _HEADER + int.from_bytes(data[at : at + 3], "big")
            if end > len(data):
                break
            frames.append(data[at:end])
            at = end
        self._rest = data[at:]
        return frames


class OpenStreams:
    """Open streams of a connection, tracked from its frames."""

    def __init__(self) -> None:
        self.ids: set[int] = set()
        self.newest = 0

    def from_client(self, frame: bytes) -> None:
        stream = _stream(frame)
        if frame[3] == _HEADERS and stream > self.newest:
            self.newest = stream
            self.ids.add(stream)
        elif frame[3] == _RST_STREAM:
            self.ids.discard(stream)

    def from_server(self, frame: bytes) -> None:
        ends = frame[3] in {_DATA, _HEADERS} and frame[4] & _END_STREAM
        if ends or frame[3] == _RST_STREAM:
            self.ids.discard(_stream(frame))


def splits_headers(frame: bytes) -> bool:
    """True if more of a header block must follow, so that no frame may be inserted."""
    return frame[3] in {_HEADERS, _CONTINUATION} and not frame[4] & _END_HEADERS


def take_order(frame: bytes) -> tuple[bytes, str, int]:
    """Split off a frame's order: the frame, the kind of cut (empty: no order), the stream."""
    how = _ORDERS.get(frame[-_ORDER_BYTES:], "") if frame[3] == _DATA else ""
    if not how:
        return frame, "", 0
    body = frame[_HEADER:-_ORDER_BYTES]
    rest = len(body).to_bytes(3, "big") + frame[3:_HEADER] + body if body else b""
    return rest, how, _stream(frame)


def rst_stream(stream: int, error: str) -> bytes:
    return _frame(_RST_STREAM, stream, ERRORS[error].to_bytes(4, "big"))


def goaway(last_stream: int) -> bytes:
    """GOAWAY frame of a server that is about to close: later streams are not answered."""
    return _frame(_GOAWAY, 0, last_stream.to_bytes(4, "big") + bytes(4) + b"going away")


def _frame(kind: int, stream: int, body: bytes) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, 0]) + stream.to_bytes(4, "big") + body


def _stream(frame: bytes) -> int:
    return int.from_bytes(frame[5:9], "big") & 0x7FFF_FFFF
