"""Bookies in memory that speak the wire protocol: they store, read and fence, and fail where a test says so."""

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field

from delayed_tracker.bookkeeper.errors import BookieUnavailable
from delayed_tracker.bookkeeper.placement.connections import BookieConnections
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.wire.connection import Endpoint
from delayed_tracker.bookkeeper.wire.digest import Digest, DigestType, master_key
from delayed_tracker.bookkeeper.wire.replies import Status
from delayed_tracker.bookkeeper.wire.requests import LAST_ENTRY
from delayed_tracker.pulsar.v1 import bookie_pb2 as pb
from tests.bookkeeper.wire.scripted_bookie import Peer, bookie_of, framed, reply_to

VERSION_2 = 2
BATCH_READ = struct.Struct(">BBHqqqiq")
BATCH_REPLY = struct.Struct(">BBHiqqq")
CODES = {Status.NO_LEDGER: 1, Status.NO_ENTRY: 2, Status.IO_ERROR: 101, Status.TOO_MANY_REQUESTS: 106}
LEDGER = 77
SILENT = -1
"""In the place of a status: no reply."""

Fault = Callable[[pb.Request], int | None]
"""Returns the status of a request that the bookie does not perform, SILENT, or None for one that it performs."""


def body_of(
    entry_id: int,
    payload: bytes,
    *,
    last_confirmed: int | None = None,
    length: int | None = None,
    ledger_id: int = LEDGER,
    digest: DigestType = DigestType.CRC32C,
    password: bytes = b"",
) -> bytes:
    """Return the body of an entry; without other values, of a ledger whose entries are all as long, and confirmed at once."""
    confirmed = entry_id - 1 if last_confirmed is None else last_confirmed
    total = (entry_id + 1) * len(payload) if length is None else length
    return Digest(digest, password).seal(ledger_id, entry_id, confirmed, total, payload) + payload


@dataclass
class ModelBookie:
    """One bookie. Its faults are asked in order before it performs a request."""

    name: str
    password: bytes = b""
    entries: dict[int, bytes] = field(default_factory=dict)
    """Bodies by entry."""
    explicit_lac: bytes | None = None
    is_fenced: bool = False
    faults: list[Fault] = field(default_factory=list)
    asked: list[pb.Request] = field(default_factory=list)
    """All requests, in the order of their arrival."""
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    """Set at each request; a test clears it."""
    passing: asyncio.Event = field(default_factory=asyncio.Event)
    """Cleared by a test to hold back requests that arrived, and those behind them on the same connection."""
    holds: Callable[[pb.Request], bool] = lambda _: True
    """Returns True for the requests that are held back."""
    takes_batches: bool = True
    """False to close the connection at a batch read, as bookies before 4.17 do."""
    spoils: Callable[[bytes], bytes] = lambda reply: reply
    """Changes replies to batch reads."""
    batches: list[tuple[int, int]] = field(default_factory=list)
    """First entry and number of entries of all batch reads. Each entry that is looked for counts as a request, too."""
    refusals: int = 0
    """Connections that were closed at a batch read."""
    port: int = 0

    def __post_init__(self) -> None:
        self.passing.set()

    def fail(self, status: int) -> None:
        """Answer every request with a status, or not at all."""
        self.faults.append(lambda _: status)

    def fail_reads(self, entry_id: int, status: int) -> None:
        """Answer reads of an entry with a status, or not at all."""
        self.faults.append(
            lambda asked: status if asked.HasField("readRequest") and asked.readRequest.entryId == entry_id else None
        )

    def reads(self) -> list[int]:
        """Return the entries that were read, in order."""
        return [asked.readRequest.entryId for asked in self.asked if asked.HasField("readRequest")]

    async def serve(self, peer: Peer) -> None:
        """Serve one connection."""
        while True:
            message = await peer.message()
            if message[0] != VERSION_2:
                response = await self._answer(pb.Request.FromString(message))
                if response is not None:
                    await peer.send(response)
            elif not self.takes_batches:
                self.refusals += 1
                return
            else:
                await self._read_batch(peer, message)

    async def _answer(self, request: pb.Request) -> pb.Response | None:
        """Return the reply to a request; None if there shall be none."""
        self.asked.append(request)
        self.arrived.set()
        if self.holds(request):
            await self.passing.wait()
        status = next((status for fault in self.faults if (status := fault(request)) is not None), None)
        if status == SILENT:
            return None
        return self._perform(request) if status is None else reply_to(request, status)

    async def _read_batch(self, peer: Peer, message: bytes) -> None:
        """Read entries until one is missing, or would make the reply too large."""
        version, opcode, _, ledger_id, first, request_id, count, bytes_max = BATCH_READ.unpack(message)
        assert (version, opcode) == (VERSION_2, 7)
        self.batches.append((first, count))
        entries = b""
        for entry_id in range(first, first + count):
            header = pb.BKPacketHeader(version=3, operation=pb.READ_ENTRY, txnId=request_id)
            read = pb.ReadRequest(ledgerId=ledger_id, entryId=entry_id)
            response = await self._answer(pb.Request(header=header, readRequest=read))
            if response is None:
                return
            body = response.readResponse.body
            is_full = bool(entries) and BATCH_REPLY.size + len(entries) + 4 + len(body) > bytes_max
            if response.status != Status.OK or is_full:
                break
            entries += struct.pack(">i", len(body)) + body
        code = 0 if entries else CODES[response.status]
        reply = BATCH_REPLY.pack(VERSION_2, 7, 0, code, ledger_id, first, request_id) + entries
        peer.writer.write(framed(self.spoils(reply)))
        await peer.writer.drain()

    def _perform(self, request: pb.Request) -> pb.Response:
        if request.HasField("addRequest"):
            return self._add(request)
        if request.HasField("writeLacRequest"):
            self.explicit_lac = request.writeLacRequest.body
            return reply_to(request)
        last = self.entries[max(self.entries)] if self.entries else None
        if request.HasField("readLacRequest"):
            response = reply_to(request, Status.OK if last or self.explicit_lac else Status.NO_ENTRY, self.explicit_lac)
            if last is not None:
                response.readLacResponse.lastEntryBody = last
            return response
        read = request.readRequest
        if read.HasField("flag"):
            if read.masterKey != master_key(self.password):
                return reply_to(request, Status.UNAUTHORIZED)
            self.is_fenced = True
        body = last if read.entryId == LAST_ENTRY else self.entries.get(read.entryId)
        return reply_to(request, Status.NO_ENTRY if body is None else Status.OK, body)

    def _add(self, request: pb.Request) -> pb.Response:
        add = request.addRequest
        if self.is_fenced and not add.HasField("flag"):
            return reply_to(request, Status.FENCED)
        self.entries[add.entryId] = add.body
        return reply_to(request)


@contextlib.asynccontextmanager
async def serving(*bookies: ModelBookie, **settings: int) -> AsyncIterator[BookieConnections]:
    """Serve the bookies on free ports, and yield connections to them; any other one is down."""
    async with contextlib.AsyncExitStack() as stack:
        for bookie in bookies:
            bookie.port = (await stack.enter_async_context(bookie_of(bookie.serve))).port
        ports = {bookie.name: bookie.port for bookie in bookies}

        async def endpoint_of(bookie_id: str) -> Endpoint:
            if bookie_id not in ports:
                raise BookieUnavailable(bookie_id, "it is not registered")
            return Endpoint("127.0.0.1", ports[bookie_id])

        connections = BookieConnections(endpoint_of, ClientSettings(**settings))
        try:
            yield connections
        finally:
            await connections.close()


def filled(names: Sequence[str], write_quorum: int, payloads: Sequence[bytes]) -> list[ModelBookie]:
    """Return an ensemble that has these entries, each at its write quorum."""
    bookies = [ModelBookie(name) for name in names]
    length = 0
    for entry_id, payload in enumerate(payloads):
        length += len(payload)
        for number in range(write_quorum):
            body = body_of(entry_id, payload, length=length)
            bookies[(entry_id + number) % len(bookies)].entries[entry_id] = body
    return bookies
