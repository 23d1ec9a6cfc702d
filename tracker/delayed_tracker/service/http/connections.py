"""Bounds the connections of the HTTP port, and the time that each may wait for its client.

A connection waits for its client during a TLS handshake, while it has no whole request, and while the client does not read
the answer. A connection that waits too long is closed. What works on a request ends when its client leaves. At the bound,
the connection that has waited longest is closed for the next one, so that a health probe is answered however many silent
connections there are. A request that is being answered is not cut off for it.
"""

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import h11
import structlog
from starlette.types import Receive, Scope, Send
from uvicorn import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from delayed_tracker.service.clock import Clock, pause
from delayed_tracker.service.telemetry.log_rate_limiter import LogRateLimiter

REQUEST_HEAD_BYTES_MAX: Final = 16 * 1024
"""Longest request line with headers. A longer one is refused with 400."""
_BACKLOG: Final = 1_024
"""Connections that the kernel holds until they are accepted. Above this, the client tries again a second later."""
_ACCEPT_PAUSE_MS: Final = 1_000
_SHUTDOWN_SECONDS: Final = 1.0
"""Time for a client to answer the end of TLS."""
CLIENT_NAME: Final = "client_certificate_name"
"""Key in the state of a request: the CN of its client's certificate; missing without one."""
_REASON_CHARS: Final = 80
_LINES_MAX: Final = 1
"""Log lines of one kind in a minute."""
_BUSY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\ncontent-type: text/plain\r\ncontent-length: 21\r\nconnection: close\r\n\r\n"
    b"Too many connections\n"
)

_log = structlog.stdlib.get_logger("delayed_tracker.service")


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds of the HTTP port."""

    connections_max: int = 256
    client_timeout_ms: int = 10_000


class BoundedConnection(H11Protocol):
    """Connection of uvicorn with a time limit for its client."""

    def __init__(
        self, config: Config, state: ServerState, app_state: dict[str, Any], all_of_port: "HttpConnections"
    ) -> None:
        super().__init__(config, state, app_state)
        self._all = all_of_port
        self._since = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._answering: asyncio.Task[object] | None = None
        self._app, self.app = self.app, self._answer

    @property
    def waiting_since(self) -> float | None:
        """Loop time, in seconds, since which this waits for its client; None while a request is being answered."""
        answering = self.cycle is not None and not self.cycle.response_complete
        return None if answering and not self.flow.write_paused else self._since

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn has it
        """Start to wait for a request."""
        super().connection_made(transport)
        if name := _common_name(transport.get_extra_info("peercert")):
            self.app_state = {**self.app_state, CLIENT_NAME: name}
        self._all.open.add(self)
        self._since = self.loop.time()
        self._timer = self.loop.call_later(self._all.client_timeout_s, self._close_if_overdue)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection from the open ones, and end the work on an answer that nobody will get."""
        self._all.open.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)
        if self._answering is not None and self.cycle.disconnected:
            self._answering.cancel()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._answering = task = asyncio.current_task()
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not self.cycle.disconnected:
                raise
        finally:
            if self._answering is task:  # else the next request of the connection has begun
                self._answering = None

    def pause_writing(self) -> None:
        """Start to wait for the client to read."""
        self._since = self.loop.time()
        super().pause_writing()

    def on_response_complete(self) -> None:
        """Start to wait for the client to read the rest and to send its next request."""
        self._since = self.loop.time()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP, and close. If an answer has begun, close without a refusal."""
        if self.cycle is not None:
            self.cycle.disconnected = True  # drop what the application still sends: it has no reader
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.abort()

    def close_now(self) -> None:
        """Close without waiting for the client to read the rest."""
        self.transport.abort()

    def apply_limits(self) -> None:
        """Apply a new time limit to the wait of now."""
        if self._timer is not None:
            self._timer.cancel()
            self._close_if_overdue()

    def _close_if_overdue(self) -> None:
        since, now = self.waiting_since, self.loop.time()
        limit_s = self._all.client_timeout_s
        if since is not None and now - since >= limit_s:
            self.close_now()
            return
        self._timer = self.loop.call_at((now if since is None else since) + limit_s, self._close_if_overdue)


def plain() -> None:
    """Return no context: connections are in plain text."""


class HttpConnections:
    """Acceptor of connections on a listening socket, up to a bound.

    Args:
        listener: a bound socket; the acceptor closes it.
        clock: measures the minutes for log lines and the pause after a failure.
        limits: may be replaced at any time.
        secure: called for each connection, returns what TLS is spoken with; None is plain text.
    """

    def __init__(
        self,
        listener: socket.socket,
        clock: Clock,
        limits: HttpLimits,
        secure: Callable[[], ssl.SSLContext | None] = plain,
    ) -> None:
        self.limits = limits
        self.open: set[BoundedConnection] = set()
        self._handshakes: dict[asyncio.Task[None], float] = {}
        """TLS handshakes in progress, with their start in loop time. They count as open connections."""
        self._secure = secure
        self._listener = listener
        self._clock = clock
        self._budget = LogRateLimiter(
            clock, lines_max=_LINES_MAX, left_out=lambda event, count: _log.warning(event, suppressed=count)
        )

    @property
    def client_timeout_s(self) -> float:
        """Seconds that a connection waits for its client."""
        return self.limits.client_timeout_ms / 1_000

    async def accept(self, connect: Callable[[], BoundedConnection]) -> None:
        """Accept connections until cancelled, one in each iteration of the event loop.

        asyncio's own server accepts as many at once as its backlog is long, above every bound, and writes a traceback
        for each connection that finds no descriptor.
        """
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        self._listener.listen(_BACKLOG)
        while True:
            try:
                accepted = await self._next()
            except ConnectionAbortedError:
                continue
            except OSError as error:
                # No descriptor or no memory: clients stay in the kernel's queue, and open connections are served.
                self._tell("HTTP connections cannot be accepted for now", error=errno.errorcode.get(error.errno or 0))
                await pause(self._clock, _ACCEPT_PAUSE_MS)
                continue
            if await self._has_room():
                context = self._secure()
                if context is None:
                    await loop.connect_accepted_socket(connect, accepted)
                else:
                    handshake = asyncio.create_task(self._shake_hands(connect, accepted, context))
                    self._handshakes[handshake] = loop.time()
                    handshake.add_done_callback(self._handshakes.pop)
            else:
                with contextlib.closing(accepted), contextlib.suppress(OSError):
                    accepted.send(_BUSY)
            await asyncio.sleep(0)

    async def _next(self) -> socket.socket:
        """Return the next connection. asyncio's ``sock_accept`` loses one that comes while its caller is cancelled."""
        loop, descriptor = asyncio.get_running_loop(), self._listener.fileno()
        while True:
            with contextlib.suppress(BlockingIOError):
                accepted, _ = self._listener.accept()
                accepted.setblocking(False)
                return accepted
            comes = asyncio.Event()
            loop.add_reader(descriptor, comes.set)
            try:
                await comes.wait()
            finally:
                loop.remove_reader(descriptor)

    async def _shake_hands(
        self, connect: Callable[[], BoundedConnection], accepted: socket.socket, context: ssl.SSLContext
    ) -> None:
        """Begin TLS on an accepted connection. A client that does not take part is closed in time, and others go on."""
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(
                connect,
                accepted,
                ssl=context,
                ssl_handshake_timeout=self.client_timeout_s,
                ssl_shutdown_timeout=_SHUTDOWN_SECONDS,
            )
        except OSError as error:  # errors of TLS among them
            reason = getattr(error, "reason", None) or type(error).__name__
            self._tell("TLS handshakes of HTTP clients failed", error=str(reason)[:_REASON_CHARS])

    def close(self) -> None:
        """Close the listening socket and all connections, even if data is left to send."""
        self._listener.close()
        for handshake in list(self._handshakes):
            handshake.cancel()
        for connection in list(self.open):
            connection.close_now()

    async def _has_room(self) -> bool:
        """Close connections that wait for their clients until there is room; return False if there is none to close."""
        while len(self.open) + len(self._handshakes) >= self.limits.connections_max:
            waiting: list[tuple[float, Callable[[], object]]] = [
                (since, connection.close_now)
                for connection in self.open
                if (since := connection.waiting_since) is not None
            ]
            waiting += [(since, handshake.cancel) for handshake, since in self._handshakes.items()]
            self._tell(
                "HTTP connection limit reached",
                connections_max=self.limits.connections_max,
                closed="the one that waited longest" if waiting else "the new one: all are being answered",
            )
            if not waiting:
                return False
            _, close_oldest = min(waiting, key=lambda row: row[0])
            close_oldest()
            await asyncio.sleep(0)  # the descriptor is released in the next iteration of the event loop
        return True

    def _tell(self, event: str, **fields: object) -> None:
        if self._budget.allows(event):
            _log.warning(event, **fields)


def _common_name(certificate: dict[str, Any] | None) -> str | None:
    """Return the CN of a verified certificate; None without one, or with several."""
    subject = () if certificate is None else certificate.get("subject", ())
    names = [value for parts in subject for key, value in parts if key == "commonName"]
    return names[0] if len(names) == 1 else None
