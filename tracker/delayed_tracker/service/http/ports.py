"""All HTTP servers of a service: one for each address, which share the bound on connections."""

import functools
import socket
from collections.abc import Iterable

from starlette.applications import Starlette

from delayed_tracker.service.clock import Clock
from delayed_tracker.service.http.connections import HttpLimits
from delayed_tracker.service.http.http_server import HttpServer
from delayed_tracker.service.process.listen import listen
from delayed_tracker.service.security.certificates import Certificates
from delayed_tracker.service.settings.address import ListenAddress

HEALTH_CONNECTIONS_MAX = 64
"""Connections of the address for probes alone."""


class HttpPorts:
    """HTTP servers that are started and stopped together.

    Args:
        clock: of the service.
        client_timeout_ms: of each connection.
        certificates: needed by addresses with TLS.
    """

    def __init__(self, clock: Clock, client_timeout_ms: int, certificates: Certificates | None) -> None:
        self._clock = clock
        self._client_timeout_ms = client_timeout_ms
        self._certificates = certificates
        self._shared: list[HttpServer] = []
        self._health: HttpServer | None = None

    async def bind(self, addresses: Iterable[ListenAddress], app: Starlette) -> tuple[ListenAddress, ...]:
        """Add a server for each address. Return the addresses with the ports that the system chose.

        Raises:
            AddressInUse, AddressUnusable: one cannot be bound.
        """
        bound: list[ListenAddress] = []
        for each in addresses:
            listener, address = await listen("httpListenAddress", each.address)
            bound.append(each.at(address))
            self._shared.append(self._server(app, listener, each))
        return tuple(bound)

    async def bind_health(self, address: ListenAddress, app: Starlette) -> ListenAddress:
        """Add the server for probes; see :meth:`bind`."""
        listener, bound = await listen("healthListenAddress", address.address)
        self._health = self._server(app, listener, address)
        self._health.set_connections_max(HEALTH_CONNECTIONS_MAX)
        return address.at(bound)

    def _server(self, app: Starlette, listener: socket.socket, address: ListenAddress) -> HttpServer:
        limits = HttpLimits(client_timeout_ms=self._client_timeout_ms)
        if self._certificates is None:
            return HttpServer(app, listener, limits=limits, clock=self._clock)
        secure = functools.partial(self._certificates.context, address.transport)
        return HttpServer(app, listener, limits=limits, clock=self._clock, secure=secure)

    async def start(self) -> None:
        """Start to serve at all addresses."""
        for server in self._all():
            await server.start()

    async def stop(self) -> None:
        """Finish the requests in flight and close the sockets. May be called if none was started."""
        for server in self._all():
            await server.stop()

    def set_client_timeout(self, timeout_ms: int) -> None:
        """Set the time that connections wait for their clients."""
        for server in self._all():
            server.set_client_timeout(timeout_ms)

    def set_connections_max(self, connections_max: int) -> None:
        """Divide a maximum of connections among the addresses; that for probes has its own."""
        for server in self._shared:
            server.set_connections_max(max(connections_max // len(self._shared), 1))

    def _all(self) -> list[HttpServer]:
        return self._shared if self._health is None else [*self._shared, self._health]
