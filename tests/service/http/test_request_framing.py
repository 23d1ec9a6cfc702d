"""Requests that are ambiguous, too large or not HTTP, over a real socket."""

import logging
import re

import pytest
from starlette.applications import Starlette

from delayed_tracker.service.exposition.exporter import ServiceMetrics
from delayed_tracker.service.http.application import build_app
from delayed_tracker.service.http.connections import REQUEST_HEAD_BYTES_MAX, HttpLimits
from delayed_tracker.service.http.framing import BODY_BYTES_MAX
from delayed_tracker.service.process.health import Health
from tests.service.harness.raw_http import LIVE, Port, serving

HEAD = LIVE[:-2]
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.fixture
async def port(registry):
    app: Starlette = build_app(Health(), ServiceMetrics(registry, version="1"), failures=registry.calls.failures)
    async with serving(app, HttpLimits(client_timeout_ms=60_000)) as running:
        yield running


def statuses(answer: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1.1 ([0-9]{3}) ", answer)]


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (HEAD + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n", 400),
        (HEAD + CHUNKED + b"Content-Length: 5\r\n\r\n0\r\n\r\n", 400),
        (HEAD + CHUNKED + b"content-length: 0\r\n\r\n0\r\n\r\n", 400),
        (HEAD.replace(b"1.1", b"1.0") + b"Content-Length: 5\r\n" + CHUNKED + b"\r\n0\r\n\r\n", 400),
        (HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400),
        (HEAD + b"Content-Length: +5\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding: gzip\r\n\r\n", 400),
        (HEAD + b"Transfer-Encoding : chunked\r\n\r\n", 400),
        (HEAD + CHUNKED + b"\r\n0\r\n\r\n", 411),
        (HEAD + b"Content-Length: %d\r\n\r\n" % (BODY_BYTES_MAX + 1), 413),
        (HEAD + b"Content-Length: 99999999999999999999\r\n\r\n", 413),
        (HEAD + b"X: " + b"x" * REQUEST_HEAD_BYTES_MAX, 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
    ],
)
async def test_what_is_ambiguous_or_too_large_is_refused(port: Port, request_bytes: bytes, status: int):
    """The refusal closes the connection, so later bytes are not read as a request."""
    head_ends = request_bytes.endswith(b"\n")
    assert statuses(await port.answer_to(request_bytes + LIVE if head_ends else request_bytes)) == [status]


async def test_a_small_body_of_known_length_is_passed_over(port: Port):
    """A small body is ignored, and the next request on the connection is answered."""
    last = LIVE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    assert statuses(await port.answer_to(HEAD + b"Content-Length: 5\r\n\r\nhello" + last)) == [200, 200]


@pytest.mark.parametrize("body", [b"zz\r\n", b"5\r\nhello?\r\n"])
async def test_a_damaged_body_is_refused_without_a_traceback(port: Port, caplog, body: bytes):
    """The connection is closed after one answer, and nothing above a debug line is logged."""
    with caplog.at_level(logging.INFO):
        answer = await port.answer_to(HEAD + CHUNKED + b"\r\n" + body)
    assert statuses(answer) == [400]
    assert [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR] == []
