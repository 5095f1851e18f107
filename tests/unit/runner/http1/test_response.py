"""Responses, read from pieces of any size."""

import gzip
import tracemalloc
import zlib

import pytest

from runner.http1.failures import ResponseTooLarge
from runner.http1.response import OVERHEAD_BYTES, InvalidResponse, Response, ResponseReader

OK = b"HTTP/1.1 200 OK\r\n"


def read(data: bytes, *, step: int = 1 << 20, limit: int = 1000) -> tuple[Response | None, ResponseReader]:
    reader = ResponseReader(limit=limit)
    response = None
    for start in range(0, len(data), step):
        response = reader.feed(data[start : start + step])
    return response, reader


@pytest.mark.parametrize("step", [1, 2, 7, 1000])
@pytest.mark.parametrize(
    "data",
    [
        OK + b"Content-Length: 5\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: 1\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\nX: 1\r\n\r\n" + OK + b"Content-Length: 5\r\n\r\nhello",
    ],
)
def test_a_response_is_read_from_pieces_and_its_connection_is_kept(data: bytes, step: int) -> None:
    response, reader = read(data, step=step)
    assert response is not None
    assert (response.status, response.body) == (200, b"hello")
    assert "x" not in response.headers
    assert reader.is_reusable


def test_headers_are_found_in_any_case_and_repeated_ones_are_joined() -> None:
    response, _ = read(OK + b"X-A: 1\r\nx-a: 2\r\nContent-Length: 0\r\n\r\n")
    assert response is not None
    assert response.headers.get("X-a") == "1, 2"
    assert response.headers.get("absent") is None


@pytest.mark.parametrize(
    "data",
    [
        OK + b"Content-Length: 1\r\nConnection: close\r\n\r\na",
        OK + b"Content-Length: 1\r\nConnection: close\r\n\r\nab",
        OK + b"Content-Length: 1\r\n\r\na" + OK + b"Content-Length: 1\r\n\r\nb",
        OK + b"Content-Length: 1\r\n\r\nagarbage",
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
    ],
)
def test_a_connection_with_anything_after_the_response_is_not_kept(data: bytes) -> None:
    response, reader = read(data)
    assert response is not None
    assert response.body == b"a"
    assert not reader.is_reusable


def test_without_a_length_the_end_of_the_stream_ends_the_response() -> None:
    response, reader = read(OK + b"\r\nhello")
    assert response is None
    ended = reader.end()
    assert ended is not None
    assert ended.body == b"hello"
    assert not reader.is_reusable


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"HTTP/1.1 200",
        OK + b"Content-Length: 6\r\n\r\nhello",
        OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
    ],
)
def test_a_truncated_response_is_none(data: bytes) -> None:
    response, reader = read(data)
    assert response is None
    assert reader.end() is None


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x06\x04\x00\x00\x00\x00\x00",  # HTTP/2
        b"SSH-2.0-OpenSSH\r\n",
        OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        OK + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_no_response_is_rejected(data: bytes) -> None:
    with pytest.raises(InvalidResponse):
        read(data)


def test_a_body_over_the_limit_is_rejected_while_it_arrives() -> None:
    with pytest.raises(ResponseTooLarge):
        read(OK + b"Content-Length: 1000000\r\n\r\n" + b"x" * 1001)


@pytest.mark.parametrize(
    "data",
    [
        OK + b"X: " + b"a" * 2 * OVERHEAD_BYTES,
        b"HTTP/1.1 103 Early Hints\r\n\r\n" * OVERHEAD_BYTES,
        OK + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nT: " + b"a" * 2 * OVERHEAD_BYTES,
    ],
)
def test_endless_headers_are_rejected(data: bytes) -> None:
    with pytest.raises(InvalidResponse, match="headers have more than 262144 bytes"):
        read(data, step=4096)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"gzip", gzip.compress(b"hello", mtime=0)),
        (b"deflate", zlib.compress(b"hello")),
        (b"deflate", zlib.compress(b"hello", wbits=-15)),
    ],
)
def test_a_compressed_body_is_decompressed_although_it_was_not_asked_for(encoding: bytes, body: bytes) -> None:
    response, _ = read(OK + b"Content-Encoding: %b\r\nContent-Length: %d\r\n\r\n%b" % (encoding, len(body), body))
    assert response is not None
    assert response.body == b"hello"


def test_a_compressed_body_counts_with_its_size() -> None:
    body = gzip.compress(b"0" * 100_000, mtime=0)
    with pytest.raises(ResponseTooLarge):
        read(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


@pytest.mark.parametrize("body", [b"not compressed", gzip.compress(b"hello" * 50, mtime=0)[:-9]])
def test_a_body_that_cannot_be_decompressed_is_rejected(body: bytes) -> None:
    with pytest.raises(InvalidResponse):
        read(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def test_a_body_in_chunks_of_two_bytes_takes_little_more_memory_than_its_size() -> None:
    reader = ResponseReader(limit=1 << 20)
    reader.feed(OK + b"Transfer-Encoding: chunked\r\n\r\n")
    piece = b"2\r\nab\r\n" * 8192
    tracemalloc.start()
    try:
        for _ in range(16):
            reader.feed(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 << 20, "the body has 256 KiB"
    response = reader.feed(b"0\r\n\r\n")
    assert response is not None
    assert response.body == b"ab" * 8192 * 16


def test_gzip_may_have_several_parts() -> None:
    body = gzip.compress(b"[1,", mtime=0) + gzip.compress(b"2]", mtime=0)
    found, _ = read(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    assert found is not None
    assert found.body == b"[1,2]"


def test_all_parts_of_a_body_together_are_limited() -> None:
    body = gzip.compress(b"0" * 600, mtime=0) * 2
    with pytest.raises(ResponseTooLarge):
        read(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def test_what_follows_a_compressed_body_is_not_ignored() -> None:
    body = zlib.compress(b"[1]") + b"x"
    with pytest.raises(InvalidResponse, match="several parts"):
        read(OK + b"Content-Encoding: deflate\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))


def test_many_parts_are_rejected() -> None:
    body = gzip.compress(b"", mtime=0) * 1000
    with pytest.raises(InvalidResponse, match="several parts"):
        read(OK + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body), limit=1 << 20)


def test_an_encoding_that_was_not_requested_is_named() -> None:
    with pytest.raises(InvalidResponse, match="encoding that was not requested"):
        read(OK + b"Content-Encoding: br\r\nContent-Length: 2\r\n\r\n\x01\x02")


def test_the_encoding_of_an_error_does_not_hide_its_status() -> None:
    found, _ = read(b"HTTP/1.1 404 Not Found\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n\x01\x02")
    assert found is not None
    assert found.status == 404
