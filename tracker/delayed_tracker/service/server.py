"""The whole service: creates, connects, starts and stops its parts.

Start: bind both addresses, answer HTTP (live, not ready), open the storage and the ledgers, answer gRPC, report ready,
load the kernels (or compile them in the background). Stop: report NOT_SERVING, refuse new calls, end waiting polls,
finish effects, close connections, close the storage and the ledgers. A stop takes no longer than the grace period. Work
that it cuts off is safe, because a snapshot is stored completely or not at all.
"""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import structlog
from grpc_health.v1 import health

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.clock import Clock, SystemClock
from delayed_tracker.service.exposition.exporter import Names, ServiceMetrics
from delayed_tracker.service.grpc.ledger_servicer import LedgerServicer
from delayed_tracker.service.grpc.listening import add_addresses, make_server
from delayed_tracker.service.grpc.methods import serve_ledgers, serve_tracker
from delayed_tracker.service.grpc.reflection import Reflection
from delayed_tracker.service.grpc.servicer import TrackerServicer
from delayed_tracker.service.grpc.standard_methods import (
    serve_health,
    serve_reflection,
    standard_admission,
    standard_limits,
)
from delayed_tracker.service.http.access import GuardedTopics
from delayed_tracker.service.http.application import build_app, build_health_app
from delayed_tracker.service.http.message_id import AdminHooks, message_id_routes
from delayed_tracker.service.http.ports import HttpPorts
from delayed_tracker.service.instruments.loop_lag import LoopLag
from delayed_tracker.service.instruments.measured_add_log import MeasuredAddLog
from delayed_tracker.service.instruments.measured_storage import MeasuredStorage
from delayed_tracker.service.process.backends import STORAGE_KEY, add_log_of, add_log_url_of, storage_of, tracing_of
from delayed_tracker.service.process.freed_memory import MemoryTrimmer, allocate_in_two_arenas, trim_of_this_process
from delayed_tracker.service.process.garbage_collection import collect_everything_seldom, keep_loaded_objects
from delayed_tracker.service.process.health import LEDGER_SERVICE_NAME, SERVICE_NAME, Health, Stage
from delayed_tracker.service.process.kernel_start import KernelLoader
from delayed_tracker.service.process.listen import address_count, listen
from delayed_tracker.service.process.open_files import (
    ConnectionCaps,
    open_files_count,
    open_files_limit,
    raise_open_files_limit,
)
from delayed_tracker.service.process.ready_file import ReadyFile
from delayed_tracker.service.process.reloading import Reloader
from delayed_tracker.service.process.signals import handled
from delayed_tracker.service.queries.ledger_access import LedgerAccess, LedgerAnswers
from delayed_tracker.service.security.certificates import Certificates
from delayed_tracker.service.security.guard import Guard
from delayed_tracker.service.settings.address import Address, ListenAddress
from delayed_tracker.service.settings.settings import Settings
from delayed_tracker.service.storage.degradation import degradation_of
from delayed_tracker.service.telemetry.internal_errors import InternalErrors
from delayed_tracker.service.telemetry.logs import set_log_level
from delayed_tracker.service.trackers.registry import TrackerRegistry
from delayed_tracker.storage.capabilities import cluster_report_of
from delayed_tracker.storage.maintenance.copy_marker import require_no_unfinished_copy

if TYPE_CHECKING:
    from delayed_tracker.service.telemetry.tracing import Tracing

_CLOSE_MS = 1_000
"""End of the grace period, at most half of it, that is reserved for closing connections and the storage."""
_CLOSE_SECONDS_MIN = 0.1
"""Minimum time for each of these closes, even if the grace period is over."""
_SPANS_SECONDS_MAX = 2.0
"""Time for the last spans, so that a collector that does not answer hardly delays a restart."""

_log = structlog.stdlib.get_logger("delayed_tracker.service")


@dataclass(frozen=True, slots=True)
class BoundAddresses:
    """Addresses at which a running service listens, with the ports that the system assigned."""

    grpc: Address
    """The first of gRPC."""
    http: Address
    """The first of HTTP."""
    grpc_addresses: tuple[ListenAddress, ...] = ()
    http_addresses: tuple[ListenAddress, ...] = ()
    health: Address | None = None
    """Address for probes; None if there is none."""

    @classmethod
    def of(
        cls, grpc: tuple[ListenAddress, ...], http: tuple[ListenAddress, ...], health: ListenAddress | None
    ) -> "BoundAddresses":
        """Return the addresses of a service, at least one of gRPC and one of HTTP."""
        return cls(grpc[0].address, http[0].address, grpc, http, None if health is None else health.address)

    def to_json(self) -> str:
        """Return the content of ``--ready-file``: the addresses, and the process id.

        ``grpc`` and ``http`` are ``host:port`` of the first of each; ``grpc_addresses`` and ``http_addresses`` are all, as the
        settings write them; ``health`` is null if there is none.
        """
        return json.dumps(
            {
                "grpc": str(self.grpc),
                "http": str(self.http),
                "grpc_addresses": [str(each) for each in self.grpc_addresses],
                "http_addresses": [str(each) for each in self.http_addresses],
                "health": None if self.health is None else str(self.health),
                "pid": os.getpid(),
            }
        )


class TrackerServer:
    """One service in the running event loop. Started once, stopped once."""

    def __init__(
        self, settings: Settings, *, clock: Clock | None = None, admin_hooks: AdminHooks | None = None
    ) -> None:
        """Create the parts without opening them; see :meth:`start`.

        Raises:
            UnknownStorageScheme, StorageBackendMissing, InvalidInput: the storage URL names nothing that can be opened.
        """
        self.settings = settings
        self.health = Health(self._degradation)
        clock = clock or SystemClock()
        backend, _, _ = settings.storage.storage_url.partition(":")
        self._tracing = tracing_of(settings)
        self._storage = MeasuredStorage(
            storage_of(settings), backend, clock, slow_ms=settings.telemetry.slow_storage_ms, spans=self._tracing
        )
        self._add_log = self._measured_log(clock)
        self.trackers = TrackerRegistry(
            self._storage,
            settings.tracker_limits(),
            service_limits=settings.service_limits(),
            clock=clock,
            add_log=self._add_log,
            logs_changes=settings.storage.durable_adds,
            log_is_apart=bool(settings.storage.add_log_url),
        )
        self.trackers.calls.spans = self._tracing
        self._standard_limits = standard_limits(settings.service_limits())
        self._loop_lag = LoopLag(self.trackers.instruments.loop_lag)
        self._kernels = KernelLoader()
        self._freed_memory = MemoryTrimmer(trim=trim_of_this_process())
        self.ledgers = LedgerAccess(settings.ledger.ledger_source_url, LedgerAnswers.of(settings))
        self._admin_hooks = admin_hooks or AdminHooks()
        self.certificates: Certificates | None = None
        """Certificates in force; None without an address with TLS."""
        self._guard: Guard | None = None
        self._rereading: list[asyncio.Task[None]] = []
        """Tasks that read keys, rules and certificates again."""
        self._grpc: grpc.aio.Server | None = None
        self._http: HttpPorts | None = None

    def _degradation(self) -> str:
        cluster = cluster_report_of(self._storage.inner)
        return degradation_of(self.trackers.log, self.trackers.access.failures, cluster)

    async def start(self) -> BoundAddresses:
        """Start everything, and return when calls are answered.

        Raises:
            OpenFilesLimitTooLow, InvalidInput: the limit of open files is too low for the service, or for its settings.
            AddressInUse, AddressUnusable: one of the addresses cannot be bound; nothing was opened.
            StorageInUse, StorageFormatUnsupported, StorageUnavailable: the storage cannot be opened; everything is
            released.
            InvalidInput: a certificate, a key of tokens or the rules are unusable; everything is released.
            InvalidInput, LedgerFileInvalid, MetadataInvalid: the ledgers cannot be opened; everything is released.
        """
        async with contextlib.AsyncExitStack() as undo:
            undo.push_async_callback(self.trackers.close)
            caps = self._connection_caps(open_count=0)
            self._guard = await self._load_guard()
            self.certificates = certificates = await self._load_certificates()
            # gRPC cannot release an address before it has served. Until the storage is open, plain sockets hold the
            # addresses.
            held = undo.enter_context(contextlib.ExitStack())
            grpc_addresses = [await _held(held, each) for each in self.settings.server.grpc_addresses]
            timeout_ms = self.settings.server.http_client_timeout_ms
            http = HttpPorts(self.trackers.clock, timeout_ms, certificates)
            undo.push_async_callback(http.stop)
            metrics = ServiceMetrics(
                self.trackers,
                version=metadata.version("delayed-tracker"),
                storage=self._storage,
                add_log=self._add_log,
                cluster=self.settings.telemetry.cluster_name,
                names=Names(self.settings.telemetry.metrics_names),
            )
            admin = message_id_routes(self.ledgers, _guarded(self._admin_hooks))
            app = build_app(self.health, metrics, *admin, failures=self.trackers.calls.failures, guard=self._guard)
            http_addresses = await http.bind(self.settings.server.http_addresses, app)
            health_address = self.settings.server.health_address
            if health_address is not None:
                health_address = await http.bind_health(health_address, build_health_app(self.health))
            http.set_connections_max(caps.http)
            await http.start()
            undo.push_async_callback(self._kernels.stop)
            self._kernels.start_later()
            await self._start_storage()
            undo.push_async_callback(self.ledgers.close)
            await self.ledgers.start()
            held.close()
            caps = self._connection_caps(open_count=open_files_count())
            http.set_connections_max(caps.http)
            # gRPC listens on each address that a host name resolves to, and counts the connections of each separately.
            counts = [await address_count("grpcListenAddress", each.address) for each in grpc_addresses]
            server = self._grpc_server(max(caps.grpc // sum(counts), 1))
            add_addresses(server, grpc_addresses, certificates)
            await server.start()
            undo.pop_all()
        self._grpc, self._http = server, http
        for reread in (self._guard, certificates):
            if reread is not None:
                self._rereading.append(asyncio.create_task(reread.run()))
        self._freed_memory.start()
        self._loop_lag.start()
        self.trackers.instruments.clock_steps.start()
        await self.health.enter(Stage.SERVING)
        return BoundAddresses.of(tuple(grpc_addresses), http_addresses, health_address)

    def upkeep(self) -> list[asyncio.Task[None]]:
        """Return the tasks that read files again and open ledgers later, which end only if they fail or are done."""
        opening = self.ledgers.opening
        return self._rereading if opening is None else [*self._rereading, opening]

    def apply(self, settings: Settings) -> None:
        """Apply settings that differ from the present ones only in reloadable keys."""
        before, self.settings = self.settings, settings
        self.trackers.service_limits.adopt(settings.service_limits())
        self._standard_limits.adopt(standard_limits(settings.service_limits()))
        self.trackers.limits_changed()
        if self._http is not None:
            self._http.set_client_timeout(settings.server.http_client_timeout_ms)
        if settings.telemetry.log_level != before.telemetry.log_level:
            set_log_level(settings.telemetry.log_level)

    async def _load_guard(self) -> Guard | None:
        security, trackers = self.settings.security, self.trackers
        if not security.authentication_enabled:
            return None
        return await asyncio.to_thread(
            Guard,
            security,
            trackers.clock,
            counts=trackers.instruments.security,
            holdings=trackers.principals,
            retry_after_ms=lambda: trackers.service_limits.retry_after_ms,
        )

    async def _load_certificates(self) -> Certificates | None:
        has_tls = any(address.is_secured for _, address in self.settings.server.addresses())
        if not has_tls:
            return None
        return await asyncio.to_thread(
            Certificates, self.settings.tls, self.trackers.clock, self.trackers.instruments.security
        )

    def _measured_log(self, clock: Clock) -> MeasuredAddLog | None:
        log, slow_ms = add_log_of(self.settings), self.settings.telemetry.slow_storage_ms
        backend, _, _ = add_log_url_of(self.settings).partition(":")
        return None if log is None else MeasuredAddLog(log, backend, clock, slow_ms=slow_ms, spans=self._tracing)

    def _connection_caps(self, *, open_count: int) -> ConnectionCaps:
        return ConnectionCaps.within(
            open_files_limit(),
            open_count=open_count,
            storage_operations_max=self.settings.storage.storage_operations_max,
            grpc=self.settings.server.grpc_connections_max,
            http=self.settings.server.http_connections_max,
        )

    async def _start_storage(self) -> None:
        try:
            await self.trackers.start()
        except InvalidInput as error:
            # The backend's error names its part of the URL; the operator needs the setting's key and the whole URL.
            raise InvalidInput(STORAGE_KEY, self.settings.storage.storage_url, error.remedy) from error
        await require_no_unfinished_copy(self.trackers.storage)

    async def stop(self) -> None:
        """Drain in order, within the grace period. Harmless if the service has not started."""
        if self._grpc is None or self._http is None:
            return
        server, http = self._grpc, self._http
        self._grpc, self._http = None, None
        for task in self._rereading:
            task.cancel()
        self._freed_memory.stop()
        self._loop_lag.stop()
        self.trackers.instruments.clock_steps.stop()
        loop = asyncio.get_running_loop()
        grace_ends = loop.time() + self.settings.server.shutdown_grace_ms / 1_000

        def remaining_seconds() -> float:
            return max(grace_ends - loop.time(), _CLOSE_SECONDS_MIN)

        await self._kernels.stop()
        await self.health.enter(Stage.DRAINING)
        await self.trackers.drain(drain_ms_of(self.settings.server.shutdown_grace_ms))
        self.health.end_watches()
        await server.stop(remaining_seconds())
        try:
            async with asyncio.timeout(remaining_seconds()):
                await self.trackers.close()
        except TimeoutError:
            _log.warning("storage did not close in time", storage=self.settings.storage.storage_url)
        await http.stop()
        try:
            async with asyncio.timeout(remaining_seconds()):
                await self.ledgers.close()
        except TimeoutError:
            _log.warning("ledgers did not close in time", ledgers=self.settings.ledger.ledger_source_url)
        if self._tracing is not None:
            await _close_tracing(self._tracing, min(remaining_seconds(), _SPANS_SECONDS_MAX))

    def _grpc_server(self, connections_max: int) -> grpc.aio.Server:
        server = make_server(self.settings, connections_max)
        serve_tracker(TrackerServicer(self.trackers), server, self.trackers.calls, self._guard)
        serve_ledgers(LedgerServicer(self.ledgers), server, self.trackers.calls, self._guard)
        admission = standard_admission(self._standard_limits)
        serve_health(self.health, server, admission)
        names = (SERVICE_NAME, LEDGER_SERVICE_NAME, health.SERVICE_NAME)
        serve_reflection(Reflection(names, self.trackers.calls), server, admission, self._guard)
        return server


async def _held(sockets: contextlib.ExitStack, each: ListenAddress) -> ListenAddress:
    """Bind a socket to an address of gRPC until the stack is closed; return the address with its port."""
    held, address = await listen("grpcListenAddress", each.address)
    sockets.callback(held.close)
    return each.at(address)


def _guarded(hooks: AdminHooks) -> AdminHooks:
    return AdminHooks(hooks.ownership, GuardedTopics(hooks.authorization))


def drain_ms_of(grace_ms: int) -> int:
    """Return the part of a grace period in which trackers finish what they have begun."""
    return max(grace_ms - _CLOSE_MS, grace_ms // 2)


async def _close_tracing(tracing: "Tracing", within_seconds: float) -> None:
    closing = asyncio.get_running_loop().run_in_executor(None, tracing.close)
    if not (await asyncio.wait([closing], timeout=within_seconds))[0]:
        _log.warning("spans were not sent in time")
        tracing.give_up()
        await closing


async def serve(
    settings: Settings,
    *,
    clock: Clock | None = None,
    ready_file: Path | None = None,
    reread: Callable[[], Settings] | None = None,
    end_within: Callable[[float], object] | None = None,
) -> BoundAddresses | None:
    """Run the service until SIGTERM or SIGINT. Return its addresses when everything is closed; None if it never answered.

    A signal during the start ends the start, and closes what it had opened.

    Args:
        settings: all settings; nothing else is read.
        clock: None is the system's clock.
        ready_file: written when calls are answered (``BoundAddresses.to_json``), removed at the end. One that a killed
            service left is removed at once; that of a running service is replaced when this one answers.
        reread: reads the settings again from their sources at SIGHUP; None ignores SIGHUP.
        end_within: called with seconds, the end of the grace period, after a stop by a signal: threads may still wait for a file
            or a storage, and the interpreter for them.

    Raises:
        DelayedTrackerError: the service could not start. ``delayed_tracker.cli.exit_codes`` maps each error to an exit
            code.
        Exception: keys, rules, certificates or settings cannot be read again, for a reason that no file has, such as a thread
            that cannot be started. The service has stopped in order.
    """
    asyncio.get_running_loop().set_exception_handler(InternalErrors(clock or SystemClock()).report)
    allocate_in_two_arenas()
    collect_everything_seldom()
    raise_open_files_limit()
    ready = ReadyFile(ready_file)
    ready.prepare()
    server = TrackerServer(settings, clock=clock)
    stop = asyncio.Event()
    reloader = Reloader(reread, current=lambda: server.settings, apply=server.apply)
    reloading = asyncio.create_task(reloader.run())
    with handled({signal.SIGTERM: stop.set, signal.SIGINT: stop.set, signal.SIGHUP: reloader.ask}):
        try:
            bound = await _start_unless(stop, server)
            if bound is not None:
                keep_loaded_objects()
                _warn_of_open_addresses(bound, has_authentication=settings.security.authentication_enabled)
                ready.write(f"{bound.to_json()}\n")
                _log.info("ready", grpc=str(bound.grpc), http=str(bound.http), storage=settings.storage.storage_url)
                await _until_stopped(stop, (reloading, *server.upkeep()))
                _log.info("stopping", grace_ms=server.settings.server.shutdown_grace_ms)
        finally:
            ready.remove()
            await server.stop()
            reloading.cancel()
            await asyncio.wait([reloading])
    _log.info("stopped")
    if end_within is not None:
        grace_ms = server.settings.server.shutdown_grace_ms
        end_within((grace_ms - drain_ms_of(grace_ms)) / 1_000)
    return bound


async def _start_unless(stop: asyncio.Event, server: TrackerServer) -> BoundAddresses | None:
    """Start the service; None if ``stop`` is set before it has started: what it had opened is then closed, as far as time allows.

    Raises: the errors of :meth:`TrackerServer.start`.
    """
    starting, stopping = asyncio.create_task(server.start()), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait([starting, stopping], return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        starting.cancel()
        await asyncio.wait([starting])
        raise
    finally:
        stopping.cancel()
    if starting.done():
        return starting.result()
    starting.cancel()
    grace_ms = server.settings.server.shutdown_grace_ms
    _log.info("stopping before the service has started", grace_ms=grace_ms)
    await asyncio.wait([starting], timeout=drain_ms_of(grace_ms) / 1_000)
    if not starting.done():
        _log.warning("what the start had opened did not close in time", storage=server.settings.storage.storage_url)
    elif not starting.cancelled() and (error := starting.exception()) is not None:
        _log.warning("the start failed while it was ended", error=str(error))
    return None


async def _until_stopped(stop: asyncio.Event, upkeep: Iterable[asyncio.Task[None]]) -> None:
    """Return when ``stop`` is set. Raise the error of a task that fails before: its files would never be read again."""
    stopping = asyncio.create_task(stop.wait())
    running: set[asyncio.Task[Any]] = {stopping, *upkeep}
    try:
        while not stopping.done():
            ended, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in ended:
                task.result()
    finally:
        stopping.cancel()


def _warn_of_open_addresses(bound: BoundAddresses, *, has_authentication: bool) -> None:
    for key, addresses in (("grpcListenAddress", bound.grpc_addresses), ("httpListenAddress", bound.http_addresses)):
        for each in addresses:
            if not each.address.is_loopback and not (each.is_secured and has_authentication):
                _log.warning("reachable from other machines without TLS or authentication", key=key, address=str(each))
