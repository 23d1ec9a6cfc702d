"""The connection to one bookie: made when it is first needed, and again after it ended, with a growing pause."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter

from delayed_tracker.bookkeeper.errors import (
    BookieUnavailable,
    BookKeeperError,
    ClientClosed,
    EntryTooLarge,
    RequestTimedOut,
    TlsRefused,
    TooManyInFlight,
)
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.stats import BookieCounters, BookieStats
from delayed_tracker.bookkeeper.wire.batch import Answers
from delayed_tracker.bookkeeper.wire.channel import Channel
from delayed_tracker.bookkeeper.wire.in_flight import InFlight
from delayed_tracker.bookkeeper.wire.replies import REPLIES_OF_VERSION_3, Reply, ReplyFormat, Status
from delayed_tracker.bookkeeper.wire.requests import Operation, Request
from delayed_tracker.core.values.errors import InvalidInput

_PORT_MAX = 65_535
_DOUBLINGS_MAX = 30
_frame_bytes = attrgetter("frame_bytes")
_READS = frozenset({Operation.READ_ENTRY, Operation.READ_LAC, Operation.READ_BATCH})


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Address of a bookie: a host's name or number, and a port of 1 to 65535.

    Raises:
        InvalidInput: the port is out of range.
    """

    host: str
    port: int

    def __post_init__(self) -> None:
        if not 1 <= self.port <= _PORT_MAX:
            raise InvalidInput("port", self.port, f"give the port of a bookie, 1 to {_PORT_MAX}")


class BookieConnection:
    """Connection to one bookie, for all ledgers of a client. It belongs to the running event loop.

    Args:
        bookie: id of the bookie, for errors.
        find: returns where the bookie listens. It is called at each attempt to connect, and within its time; a
            BookKeeperError ends the attempt.
        settings: times, bounds and TLS.
        counters: of the bookie; None makes new ones.
        replies: format of what the bookie answers; all requests are of its version.
    """

    def __init__(
        self,
        bookie: str,
        find: Callable[[], Awaitable[Endpoint]],
        settings: ClientSettings,
        *,
        counters: BookieCounters | None = None,
        replies: ReplyFormat = REPLIES_OF_VERSION_3,
    ) -> None:
        self.in_flight = InFlight(settings.in_flight_requests_max, settings.in_flight_bytes_max)
        """Requests that wait for replies, and their bytes."""
        self._bookie = bookie
        self._find = find
        self._settings = settings
        self.counters = counters or BookieCounters()
        self.refused_at: float | None = None
        """Time of the event loop at which the bookie last closed an open connection on which it had never answered."""
        self._replies = replies
        self._loop = asyncio.get_running_loop()
        self._channel: Channel | None = None
        self._opening: asyncio.Task[None] | None = None
        self._failures = 0
        self._retry_at = 0.0
        self._is_closed = False

    def send(self, request: Request) -> asyncio.Future[Reply]:
        """Return the future reply to a request; never waits. The bookie may refuse by the status of its reply.

        The future fails with BookieUnavailable or one of its subclasses; RequestTimedOut after the time of the
        settings. Cancelling it withdraws the request if it is not written yet.

        Raises:
            TooManyInFlight: there is no room, or others wait for it; nothing is sent. See :meth:`call`.
            EntryTooLarge: the frame is longer than bookies take; nothing is sent.
            BookieUnavailable: the connection failed a short time ago; the error says when it is tried again.
            ClientClosed: this was closed.
        """
        channel = self._channel_for(request)
        if not self.in_flight.try_take(request.frame_bytes):
            raise self._too_many()
        return channel.send(request, self._timeout_s(request))

    def send_all(self, requests: Sequence[Request], answers: Answers) -> None:
        """Send several requests of one kind, all or none; never waits.

        Raises: as :meth:`send`; nothing is sent.
        """
        channel = self._channel_for(max(requests, key=_frame_bytes))
        if not self.in_flight.try_take(sum(map(_frame_bytes, requests)), len(requests)):
            raise self._too_many()
        channel.send_all(requests, answers, self._timeout_s(requests[0]))

    async def call(self, request: Request) -> Reply:
        """Return the reply to a request. It waits for room first, in turn, and no longer than for the reply.

        Raises:
            TooManyInFlight: there was no room in time; nothing was sent.
            EntryTooLarge, BookieUnavailable, ClientClosed: as :meth:`send`.
        """
        channel = self._channel_for(request)
        if not self.in_flight.try_take(request.frame_bytes):
            channel = await self._wait_for_room(request)
        return await channel.send(request, self._timeout_s(request))

    def stats(self) -> BookieStats:
        """Return what the bookie was asked and answered so far."""
        return self.counters.read(self._bookie, self.in_flight.requests, self.in_flight.bytes)

    @property
    def is_gone(self) -> bool:
        """True if the last connection has ended, and nothing waits for the next one."""
        channel, opening = self._channel, self._opening
        if channel is None or channel.error is None or self.in_flight.requests:
            return False
        return channel.closed.done() and (opening is None or opening.done())

    async def close(self) -> None:
        """End the connection for good; requests without a reply fail with ClientClosed. Closing again does nothing."""
        self._is_closed = True
        channel, opening = self._channel, self._opening
        if channel is None:
            return
        channel.end(ClientClosed(f"bookie {self._bookie}: the client was closed; make another one"))
        if opening is not None:
            opening.cancel()
            await asyncio.wait([opening])
        await channel.closed

    async def _wait_for_room(self, request: Request) -> Channel:
        try:
            async with asyncio.timeout(self._timeout_s(request)):
                await self.in_flight.take(request.frame_bytes)
        except TimeoutError as error:
            waited = f"no room for {request} within {self._timeout_s(request):g} s; wait for other replies"
            raise TooManyInFlight(f"bookie {self._bookie}: {waited}") from error
        try:
            return self._channel_for(request)
        except BookKeeperError:
            self.in_flight.give(request.frame_bytes)
            raise

    def _too_many(self) -> TooManyInFlight:
        return TooManyInFlight(
            f"bookie {self._bookie}: {self.in_flight.requests} requests of {self.in_flight.bytes} bytes are in"
            f" flight, and in_flight_requests_max={self._settings.in_flight_requests_max} and"
            f" in_flight_bytes_max={self._settings.in_flight_bytes_max}; wait for replies"
        )

    def _timeout_s(self, request: Request) -> float:
        settings = self._settings
        return (settings.read_timeout_ms if request.operation in _READS else settings.add_timeout_ms) / 1_000

    def _channel_for(self, request: Request) -> Channel:
        """Return the connection, beginning one if there is none."""
        if self._is_closed:
            raise ClientClosed(f"bookie {self._bookie}: the client was closed; make another one")
        if request.frame_bytes > self._settings.frame_bytes_max:
            raise EntryTooLarge(
                f"{request}: a frame of {request.frame_bytes} bytes is longer than"
                f" frame_bytes_max={self._settings.frame_bytes_max}; cut the payload"
            )
        channel = self._channel
        if channel is not None and channel.error is None:
            return channel
        wait_s = self._retry_at - self._loop.time()
        if channel is not None and channel.error is not None and wait_s > 0:
            problem = f"not tried again for {round(1_000 * wait_s)} ms, after: {channel.error.message}"
            raise BookieUnavailable(self._bookie, problem)
        settings = self._settings
        channel = Channel(
            self._bookie,
            settings.reply_bytes_max,
            self.in_flight,
            settings.in_flight_requests_max,
            self._ended,
            counters=self.counters,
            replies=self._replies,
        )
        self.counters.connections += 1
        self._channel = channel
        self._opening = self._loop.create_task(self._open(channel))
        return channel

    def _ended(self, error: BookKeeperError) -> None:
        """Set the time of the next attempt: a bookie that only accepts connections and ends them is not hammered."""
        channel = self._channel
        assert channel is not None
        self._failures = 1 if channel.has_answered else self._failures + 1
        if channel.was_open and not channel.has_answered and not isinstance(error, RequestTimedOut | ClientClosed):
            self.refused_at = self._loop.time()
        doubled = self._settings.backoff_min_ms << min(self._failures - 1, _DOUBLINGS_MAX)
        self._retry_at = self._loop.time() + min(doubled, self._settings.backoff_max_ms) / 1_000

    async def _open(self, channel: Channel) -> None:
        timeout_s = self._settings.connect_timeout_ms / 1_000
        where = "it"
        try:
            async with asyncio.timeout(timeout_s):
                endpoint = await self._find()
                where = f"{endpoint.host}:{endpoint.port}"
                transport, _ = await self._loop.create_connection(lambda: channel, endpoint.host, endpoint.port)
                transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                if self._settings.tls is not None:
                    transport = await self._start_tls(channel, transport, endpoint.host)
        except TimeoutError:
            problem = f"no connection to {where} within {self._settings.connect_timeout_ms} ms; is it up?"
            channel.end(BookieUnavailable(self._bookie, problem))
        except (OSError, ValueError) as error:
            # Of TLS, too: ssl.SSLError is an OSError. Names that no host can have are a ValueError.
            channel.end(BookieUnavailable(self._bookie, f"no connection to {where}: {error}"))
        except BookKeeperError as error:
            channel.end(error)
        else:
            channel.opened(transport)

    async def _start_tls(self, channel: Channel, transport: asyncio.Transport, host: str) -> asyncio.Transport:
        # Twice the time of the whole attempt, so that the caller sees the error of that.
        reply = await channel.send_start_tls(2 * self._settings.connect_timeout_ms / 1_000)
        if reply.status != Status.OK:
            problem = f"it refuses TLS ({reply.status_name}); set tlsProviderFactoryClass there, or tls=None here"
            raise TlsRefused(self._bookie, problem)
        assert self._settings.tls is not None
        channel.hand_over()
        secured = await self._loop.start_tls(transport, channel, self._settings.tls, server_hostname=host)
        if secured is None:
            raise BookieUnavailable(self._bookie, "the connection was lost in the TLS handshake")
        return secured
