"""HTTP/2 frames that the relay reads and creates."""

from __future__ import annotations

import pytest

from airflow_provider_sfevents.emulator.errors import EmulatorError
from airflow_provider_sfevents.emulator.faults import http2_frames

DATA, HEADERS, RST_STREAM, CONTINUATION = 0, 1, 3, 9
END_STREAM, END_HEADERS = 1, 4


def _frame(kind: int, stream: int, body: bytes = b"", flags: int = 0) -> bytes:
    return len(body).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + body


def _message(body: bytes) -> bytes:
    return b"\0" + len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("size", [1, 5, 9, 24, 1000])
def test_frames_are_whole_however_the_bytes_come(size: int) -> None:
    """Bytes cut anywhere give the same frames, with the preface first."""
    sent = [
        http2_frames.PREFACE,
        _frame(HEADERS, 1, b"h"),
        _frame(DATA, 1, b"d" * 300),
        _frame(DATA, 1),
    ]
    stream = b"".join(sent)
    buffer = http2_frames.FrameBuffer(http2_frames.PREFACE)
    chunks = [stream[at : at + size] for at in range(0, len(stream), size)]
    assert [frame for chunk in chunks for frame in buffer.feed(chunk)] == sent
    assert not buffer.foreign


def test_another_protocol_passes_as_it_comes() -> None:
    """Data that does not begin as HTTP/2 is passed at once."""
    buffer = http2_frames.FrameBuffer(http2_frames.PREFACE)
    assert buffer.feed(b"GET") == [b"GET"]
    assert buffer.foreign
    assert buffer.feed(b" / HTTP/1.1") == [b" / HTTP/1.1"]


@pytest.mark.parametrize(
    ("received", "is_one"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", True),
        (b"POST /services/oauth2/token HTTP/1.0\r\n", True),
        (http2_frames.PREFACE, False),
        (b"\x16\x03\x01\x02\x00\x01", False),
        (b"GET", False),
    ],
    ids=["get", "post", "http/2", "tls", "half a line"],
)
def test_requests_of_browsers_are_known(received: bytes, is_one: bool) -> None:
    """An HTTP/1 request is recognised by its first line; the HTTP/2 preface is not one."""
    assert http2_frames.is_http1(received) is is_one


def test_a_slow_preface_is_waited_for() -> None:
    """Half a preface is kept until the rest arrives."""
    buffer = http2_frames.FrameBuffer(http2_frames.PREFACE)
    assert buffer.feed(http2_frames.PREFACE[:10]) == []
    assert buffer.feed(http2_frames.PREFACE[10:]) == [http2_frames.PREFACE]
    assert not buffer.foreign


def test_streams_are_open_from_headers_to_their_end() -> None:
    """A stream is open from the client's headers to the server's end or any RST."""
    streams = http2_frames.OpenStreams()
    for stream in (1, 3, 5, 7):
        streams.from_client(_frame(HEADERS, stream))
    streams.from_client(_frame(DATA, 1, flags=END_STREAM))
    streams.from_server(_frame(DATA, 1, b"x"))
    streams.from_server(_frame(HEADERS, 3, b"trailers", END_HEADERS | END_STREAM))
    streams.from_client(_frame(RST_STREAM, 5, bytes(4)))
    streams.from_client(_frame(HEADERS, 5, b"trailers of old"))
    assert (streams.ids, streams.newest) == ({1, 7}, 7)
    streams.from_server(_frame(RST_STREAM, 7, bytes(4)))
    assert streams.ids == {1}


@pytest.mark.parametrize("how", http2_frames.HOWS)
def test_an_order_is_taken_out_of_its_frame(how: str) -> None:
    """Bytes before an order in the same frame are passed; the order is not."""
    before, order = _message(b"event"), _message(http2_frames.order(how))
    assert http2_frames.take_order(_frame(DATA, 5, before + order)) == (
        _frame(DATA, 5, before),
        how,
        5,
    )
    assert http2_frames.take_order(_frame(DATA, 5, order)) == (b"", how, 5)


def test_nothing_else_is_an_order() -> None:
    """Other frames and messages of any content are passed."""
    for frame in (_frame(DATA, 1, _message(b"x" * 16)), _frame(DATA, 1), _frame(6, 0, b"12345678")):
        assert http2_frames.take_order(frame) == (frame, "", 0)
    with pytest.raises(EmulatorError, match="'end' is not one of reset, goaway, rst_stream"):
        http2_frames.order("end")


def test_nothing_may_stand_within_a_header_block() -> None:
    """No frame is inserted into an unfinished header block."""
    assert http2_frames.splits_headers(_frame(HEADERS, 1))
    assert http2_frames.splits_headers(_frame(CONTINUATION, 1))
    assert not http2_frames.splits_headers(_frame(HEADERS, 1, flags=END_HEADERS))
    assert not http2_frames.splits_headers(_frame(DATA, 1))


def test_frames_of_our_own_have_their_shape() -> None:
    """Inserted frames have the form of RFC 9113."""
    assert http2_frames.rst_stream(5, "REFUSED_STREAM") == _frame(RST_STREAM, 5, b"\0\0\0\7")
    assert http2_frames.goaway(9) == _frame(7, 0, b"\0\0\0\x09" + bytes(4) + b"going away")
