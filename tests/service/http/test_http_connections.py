"""The bound on HTTP connections, and the time limit of each for its client, over real sockets."""

import asyncio
import resource
import socket

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from structlog.testing import capture_logs

from delayed_tracker.service.clock import ManualClock
from delayed_tracker.service.http.connections import HttpConnections, HttpLimits
from tests.service.harness.raw_http import LIVE, rest_of, serving
from tests.service.harness.shell import until

SOON = HttpLimits(connections_max=50, client_timeout_ms=100)
LATE = HttpLimits(connections_max=4, client_timeout_ms=60_000)
LARGE_BYTES = 16 * 2**20
"""More bytes than the buffers of both ends hold."""


class Page:
    """Application with a slow page that waits for the test."""

    def __init__(self):
        self.asked_count = 0
        self.left_count = 0
        self.release = asyncio.Event()
        self.app = Starlette(
            routes=[
                Route("/health/live", self.live),
                Route("/slow", self.slow),
                Route("/large", self.large),
            ]
        )

    async def live(self, _: Request):
        return PlainTextResponse("live")

    async def slow(self, _: Request):
        self.asked_count += 1
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.left_count += 1
            raise
        return PlainTextResponse("done")

    async def large(self, _: Request):
        return PlainTextResponse(b"x" * LARGE_BYTES)


@pytest.mark.parametrize("sent", [b"", LIVE[:10], LIVE[:-2]], ids=["silent", "half a line", "no empty line"])
async def test_a_client_that_sends_no_whole_request_is_disconnected(sent):
    """The connection is closed without an answer after the time limit."""
    async with serving(Page().app, SOON) as port:
        assert await port.answer_to(sent) == b""


async def test_a_request_that_comes_byte_by_byte_is_cut_off():
    """A received byte does not extend the time limit."""
    async with serving(Page().app, SOON) as port, port.client() as (reader, writer), asyncio.timeout(10):
        gone = asyncio.create_task(rest_of(reader))
        writer.write(b"GET /health/live HTTP/1.1\r\nX: ")
        while not gone.done():
            writer.write(b"x")
            await asyncio.wait([gone], timeout=0.01)
        assert await gone == b""


async def test_a_body_that_comes_byte_by_byte_is_cut_off():
    """A slow body after the answer does not keep the connection open."""
    async with serving(Page().app, SOON) as port, port.client() as (reader, writer), asyncio.timeout(10):
        gone = asyncio.create_task(rest_of(reader))
        writer.write(LIVE[:-2] + b"Content-Length: 10000\r\n\r\n")
        while not gone.done():
            writer.write(b"x")
            await asyncio.wait([gone], timeout=0.01)
        assert (await gone).startswith(b"HTTP/1.1 200")


async def test_a_client_that_does_not_read_its_answer_is_disconnected():
    """The memory of the answer is released, and the client finds the connection reset."""
    async with serving(Page().app, SOON) as port, port.client(buffer_bytes=1_024) as (reader, writer):
        writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(10):
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        await until(lambda: port.open_count == 0)
        async with asyncio.timeout(10):
            assert len(await rest_of(reader)) < LARGE_BYTES


@pytest.mark.slow
async def test_a_request_that_is_being_answered_is_not_cut_off():
    """The time limit is for the client; the application may take longer."""
    page = Page()
    async with serving(page.app, HttpLimits(client_timeout_ms=1_000)) as port, port.client() as (reader, writer):
        writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: page.asked_count == 1)
        async with port.client() as (silent, _), asyncio.timeout(10):
            assert await rest_of(silent) == b""
        page.release.set()
        async with asyncio.timeout(10):
            assert b"done" in await rest_of(reader)


async def test_work_for_a_client_that_leaves_ends(caplog):
    """A request ends with its connection, without a trace in the log; others are answered."""
    page = Page()
    async with serving(page.app, LATE) as port:
        async with port.client() as (_, writer):
            writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
            await until(lambda: page.asked_count == 1)
        await until(lambda: page.left_count == 1, within_s=5)
        assert (await port.answer_to(b"GET /health/live HTTP/1.0\r\n\r\n")).endswith(b"live")
    assert not caplog.records


async def test_the_time_limit_may_change_while_connections_wait():
    """A new time limit applies to connections that wait already, and to those that come afterwards."""
    async with serving(Page().app, LATE) as port, port.client() as (waiting, _):
        await until(lambda: port.open_count == 1)
        port.server.set_client_timeout(50)
        async with asyncio.timeout(5):
            assert await waiting.read() == b""
        assert await port.answer_to(b"") == b""


async def test_at_the_bound_the_longest_wait_makes_room():
    """A probe is answered with any number of silent connections, and the bound is never exceeded."""
    async with serving(Page().app, LATE) as port:
        silent = [await asyncio.open_connection(port.address.host, port.address.port) for _ in range(20)]
        with capture_logs() as lines:
            await until(silent[15][0].at_eof)
            assert port.open_count == LATE.connections_max
            async with port.client() as (reader, writer), asyncio.timeout(10):
                writer.write(LIVE)
                assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
                assert port.open_count == LATE.connections_max
        assert len(lines) <= 1
        for _, writer in silent:
            writer.transport.abort()
        await until(lambda: port.open_count == 0)
        assert (await port.answer_to(LIVE.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))).endswith(b"live")


async def test_at_the_bound_what_is_being_answered_stays():
    """If every connection has a request in flight, the next one gets a 503 at once."""
    page = Page()
    async with serving(page.app, LATE) as port:
        clients = [await asyncio.open_connection(port.address.host, port.address.port) for _ in range(4)]
        for _, writer in clients:
            writer.write(b"GET /slow HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        await until(lambda: page.asked_count == 4)
        assert (await port.answer_to(b"")).startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        page.release.set()
        for reader, writer in clients:
            async with asyncio.timeout(10):
                assert (await rest_of(reader)).endswith(b"done")
            writer.close()
        await until(lambda: port.open_count == 0)
        assert (await port.answer_to(b"GET /slow HTTP/1.0\r\n\r\n")).endswith(b"done")


async def test_a_connection_that_comes_while_accepting_ends_is_reset():
    """The event loop reports it in the turn in which the acceptor is cancelled; nobody holds it, and no error is logged."""
    loop, failures = asyncio.get_running_loop(), []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    listener = socket.create_server(("127.0.0.1", 0))
    connections = HttpConnections(listener, ManualClock(), LATE)
    accepting = asyncio.create_task(connections.accept(lambda: pytest.fail("a connection is served")))
    await asyncio.sleep(0)
    with socket.create_connection(listener.getsockname()) as client:
        loop.call_soon(accepting.cancel)
        await asyncio.wait([accepting])
        connections.close()
        client.settimeout(10)
        with pytest.raises(ConnectionResetError):
            client.recv(1)
    assert failures == []


async def test_a_process_without_descriptors_accepts_again_when_there_are_some():
    """Meanwhile the open connections are answered, and the log has one line for all attempts."""
    clock = ManualClock()
    async with serving(Page().app, LATE, clock=clock) as port, port.client() as (reader, writer):
        writer.write(LIVE)
        async with asyncio.timeout(10):
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
        with socket.socket() as late:
            late.setblocking(False)
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
            try:
                with capture_logs() as lines:
                    await asyncio.get_running_loop().sock_connect(late, (port.address.host, port.address.port))
                    for _ in range(3):
                        await until(lambda: clock.next_timer_in_ms() is not None)
                        clock.advance(1_000)
                writer.write(LIVE)
                async with asyncio.timeout(10):
                    assert b"200 OK" in await reader.readuntil(b"200 OK")
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert [line["error"] for line in lines] == ["EMFILE"]
            await until(lambda: clock.next_timer_in_ms() is not None)
            clock.advance(1_000)
            await until(lambda: port.open_count == 2)
