"""A real Prometheus beside real services in one event loop, with the project's rules at a sixtieth of their time."""

import asyncio
import contextlib
import json
import re
import time
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from delayed_tracker.client import ClientSettings
from delayed_tracker.service.clock import Clock
from delayed_tracker.service.server import BoundAddresses, TrackerServer
from delayed_tracker.storage.testing.faulty import FaultyStorage
from delayed_tracker.storage.testing.faulty_log import FaultyAddLog
from tests.repository.project_tree import ROOT
from tests.service.harness.settings import settings_of

SCRAPE_S = 1.0
"""Also how long one may take: on a busy machine fifteen services of one process share less than a core."""
PATIENT = ClientSettings(connect_timeout_s=60, call_timeout_s=120)
"""For calls of a test: after a fault the storage is tried again with pauses, and fifteen services share less than a core."""
_SECONDS = {"s": 1, "m": 60, "h": 3_600}
_TIME_SCALE = 60
_TIME_MIN_MS = 10_000
"""Ten scrapes: on a busy machine a few of them may come too late."""
_SHORTER = {"lateness_seconds:p99_rate5m > 30": "lateness_seconds:p99_rate5m > 2", "_seconds) > 60": "_seconds) > 2"}
"""Bounds that are times although nothing marks them so; each must occur."""


def scaled_rules(text: str) -> str:
    """Return the rules with all their times divided by sixty; their names stay.

    No alert has to hold for longer than the least time: one scrape that fails within it begins it anew.
    """
    for bound, shorter in _SHORTER.items():
        text = text.replace(bound, shorter)
    text = re.sub(r"\[(\d+)([smh])\]", lambda range_: f"[{_scaled(range_)}]", text)
    text = re.sub(r"for: \d+[smh]", f"for: {_TIME_MIN_MS}ms", text)
    text = re.sub(r"offset (\d+)([smh])", lambda clause: f"offset {_scaled(clause)}", text)
    return text.replace(", 86400)", f", {86_400 // _TIME_SCALE})")


def _scaled(match: re.Match[str]) -> str:
    seconds = int(match[1]) * _SECONDS[match[2]] / _TIME_SCALE
    return f"{max(_TIME_MIN_MS, round(seconds * 1_000))}ms"


class Service:
    """One service with a storage that fails as planned."""

    def __init__(self, directory: Path, name: str, *, clock: Clock | None = None, **settings: Any) -> None:
        self._clock = clock
        self._settings = settings_of(
            storage_url=f"faulty:seed=1;sqlite:{directory / name}.db",
            grpc_listen_address="127.0.0.1:0",
            http_listen_address="127.0.0.1:0",
            # Where the storage is not closed in time, a service that is started again finds it in use.
            shutdown_grace_ms=60_000,
            **settings,
        )
        self._server: TrackerServer | None = None
        self.bound: BoundAddresses
        self.late_s_max = 0.0
        """Bound of how late a dispatcher that means to be in time has handed off, as it notes: large on a busy machine."""

    @property
    def server(self) -> TrackerServer:
        """The running server."""
        assert self._server is not None
        return self._server

    @property
    def storage(self) -> FaultyStorage:
        """Storage of the service; its plan can be replaced."""
        return self.server._storage.inner

    @property
    def add_log(self) -> FaultyAddLog:
        """Add log of the service; its plan can be replaced."""
        return self.server._add_log.inner

    async def start(self) -> None:
        """Start it, at its former addresses if it was stopped."""
        if self._server is not None:
            self._settings = self._settings.with_values({"httpListenAddress": str(self.bound.http)})
        self._server = TrackerServer(self._settings, clock=self._clock)
        self.bound = await self._server.start()

    async def stop(self) -> None:
        """Stop it in order; no effect if it is stopped."""
        await self.server.stop()


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str) -> None:
        self._http = httpx.AsyncClient(base_url=url, timeout=30)

    async def close(self) -> None:
        await self._http.aclose()

    async def query(self, expr: str) -> list[dict]:
        """Return the current samples of an instant query."""
        answer = await self._http.get("/api/v1/query", params={"query": expr})
        body = answer.json()
        assert body["status"] == "success", (expr, body)
        result = body["data"]["result"]
        return result if body["data"]["resultType"] == "vector" else [{"metric": {}, "value": result}]

    async def value(self, expr: str) -> float | None:
        """Return the one sample of a query; None if there is none."""
        samples = await self.query(expr)
        assert len(samples) <= 1, (expr, samples)
        return float(samples[0]["value"][1]) if samples else None

    async def firing(self) -> set[tuple[str, str]]:
        """Return the alerts that fire now, each with its instance."""
        alerts = (await self._http.get("/api/v1/alerts")).json()["data"]["alerts"]
        return {
            (each["labels"]["alertname"], each["labels"]["instance"]) for each in alerts if each["state"] == "firing"
        }

    async def ready(self) -> bool:
        try:
            return (await self._http.get("/-/ready")).is_success
        except httpx.TransportError:
            return False


async def eventually(
    condition: Callable[[], Awaitable[bool]],
    what: str,
    *,
    within_s: float = 240,
    unless: Callable[[], object] = lambda: "",
) -> None:
    """Check until the condition holds; ``unless`` returns what is missing when time runs out."""
    ends = time.monotonic() + within_s
    while not await condition():
        assert time.monotonic() < ends, f"not within {within_s} s: {what}; {unless()}"
        await asyncio.sleep(SCRAPE_S / 2)


@asynccontextmanager
async def textfile_exporter(text: str) -> AsyncIterator[str]:
    """Serve one textfile as a node exporter does; yield its address."""
    body = text.encode()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(body)}\r\n\r\n"

    answering: set[asyncio.Task[None]] = set()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            # A Prometheus that gives up or ends closes the connection before its request is read.
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                await reader.readuntil(b"\r\n\r\n")
                writer.write(head.encode() + body)
                await writer.drain()
        finally:
            writer.close()
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(answer(reader, writer))
        answering.add(task)
        task.add_done_callback(answering.discard)

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        host, port = server.sockets[0].getsockname()
        yield f"{host}:{port}"
    if answering:
        await asyncio.wait(answering)


@asynccontextmanager
async def prometheus(program: str, directory: Path, targets: Mapping[str, str], node: str) -> AsyncIterator[Prometheus]:
    """Run a Prometheus that scrapes services (instance to address) and a node exporter."""
    for path in (ROOT / "conf" / "prometheus").glob("*_rules.yml"):
        (directory / path.name).write_text(scaled_rules(path.read_text()))
    config = yaml.safe_load((ROOT / "conf" / "prometheus" / "prometheus.yml").read_text())
    config["global"] = {
        key: f"{round(SCRAPE_S * 1_000)}ms" for key in ("scrape_interval", "evaluation_interval", "scrape_timeout")
    }
    tracker, exporter = config["scrape_configs"]
    tracker["static_configs"] = [
        {"targets": [address], "labels": {"instance": instance}} for instance, address in targets.items()
    ]
    exporter["static_configs"] = [{"targets": [node]}]
    (directory / "prometheus.yml").write_text(json.dumps(config))
    listener = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    listener.close()
    await listener.wait_closed()
    process: Process = await asyncio.create_subprocess_exec(
        program,
        f"--config.file={directory / 'prometheus.yml'}",
        f"--storage.tsdb.path={directory / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
        "--query.lookback-delta=6s",
        stdout=DEVNULL,
        stderr=DEVNULL,
    )
    running = Prometheus(f"http://127.0.0.1:{port}")
    try:
        await eventually(running.ready, "Prometheus answers")
        yield running
    finally:
        await running.close()
        process.terminate()
        await process.wait()
