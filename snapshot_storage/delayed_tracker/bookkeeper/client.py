"""The public client: creates, opens, recovers and deletes the ledgers of one cluster."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self
from weakref import WeakSet

from delayed_tracker.bookkeeper.errors import ClientClosed, NotOurs
from delayed_tracker.bookkeeper.metadata.errors import LedgerExists, LedgerNotFound, MetadataConflict
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata, LedgerState
from delayed_tracker.bookkeeper.metadata.ledger_store import LedgerStore, Versioned
from delayed_tracker.bookkeeper.metadata.zookeeper import Check, Operation, ZooKeeperClient
from delayed_tracker.bookkeeper.placement.bookies import AddressOf, Bookies
from delayed_tracker.bookkeeper.placement.connections import BookieConnections
from delayed_tracker.bookkeeper.placement.quorums import Quorums
from delayed_tracker.bookkeeper.reading.ledger_access import LedgerAccess
from delayed_tracker.bookkeeper.reading.reader import LedgerReader
from delayed_tracker.bookkeeper.recovery.recovering import LedgerRecovery
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.stats import BookieStats
from delayed_tracker.bookkeeper.tls import ZooKeeperTls
from delayed_tracker.bookkeeper.wire.digest import Digest, DigestType
from delayed_tracker.bookkeeper.writing.writer import LedgerWriter

_DELETE_ATTEMPTS: Final = 3
_CREATE_ATTEMPTS: Final = 10
_FRAME_OVERHEAD_BYTES: Final = 512
"""Bound of what the frame of an add has besides the payload: digest, ids, key."""


@dataclass(frozen=True, slots=True)
class _Cluster:
    """The parts of a client that is started."""

    store: LedgerStore
    bookies: Bookies
    connections: BookieConnections


class BookKeeper:
    """A client of one cluster. An asynchronous context manager, to be used in one event loop.

    Every call raises ClientClosed outside of ``async with``, and ZooKeeperUnavailable if ZooKeeper does not answer; a change
    may then have happened.

    Args:
        zookeeper: ``HOST:PORT``, several divided by commas, without a path.
        ledgers: node below which the cluster has its ledgers.
        settings: times, bounds, and TLS to bookies.
        zookeeper_tls: None for a connection in the clear.
        address_of: overrides the addresses of bookies, for forwarded ports.
    Raises:
        InvalidInput: the addresses are none.
    """

    def __init__(
        self,
        zookeeper: str,
        *,
        ledgers: str = "/ledgers",
        settings: ClientSettings | None = None,
        zookeeper_tls: ZooKeeperTls | None = None,
        address_of: AddressOf | None = None,
    ) -> None:
        self._settings = settings or ClientSettings()
        self._zookeeper = ZooKeeperClient(zookeeper, tls=zookeeper_tls)
        self._ledgers = ledgers
        self._address_of = address_of
        self._parts = AsyncExitStack()
        self._started: _Cluster | None = None
        self._writers: WeakSet[LedgerWriter] = WeakSet()

    async def __aenter__(self) -> Self:
        """Connect to ZooKeeper.

        Raises:
            ZooKeeperUnavailable: no server answers in time.
            LedgerMetadataInvalid: there is no cluster below ``ledgers``.
        """
        async with AsyncExitStack() as parts:
            await parts.enter_async_context(self._zookeeper)
            store = await LedgerStore.open(self._zookeeper, self._ledgers)
            bookies = Bookies(self._zookeeper, self._ledgers, self._settings, address_of=self._address_of)
            connections = BookieConnections(bookies.endpoint_of, self._settings)
            parts.push_async_callback(connections.close)
            self._parts = parts.pop_all()
        self._started = _Cluster(store, bookies, connections)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End all connections; what is under way fails with ClientClosed."""
        self._started = None
        for writer in tuple(self._writers):
            await writer.abandon()
        await self._parts.aclose()

    async def create(
        self,
        *,
        ensemble: int = 2,
        write_quorum: int = 2,
        ack_quorum: int = 2,
        digest: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom: Mapping[str, bytes] | None = None,
        also: Callable[[int], Sequence[Operation]] = lambda _: (),
    ) -> LedgerWriter:
        """Create a ledger on bookies chosen at random.

        Args:
            ensemble: bookies among which the entries are spread.
            write_quorum: bookies that have each entry.
            ack_quorum: bookies that must have stored an entry before its add is answered.
            digest: protects each entry; of them only HMAC protects it from somebody without the password.
            password: readers and writers need it; ZooKeeper has it in the clear.
            custom: metadata for the owner of the ledger.
            also: returns, for the ledger's id, operations that happen together with the creation, or not at all.
        Raises:
            InvalidInput: not ``1 <= ack_quorum <= write_quorum <= ensemble``.
            NotEnoughBookies: fewer bookies than ``ensemble`` take entries.
            LedgerExists: other clients took every id that was drawn.
            NodeExists, NodeChanged, NodeMissing: an operation of ``also`` is refused.
        """
        cluster = self._cluster()
        quorums = Quorums(ensemble, write_quorum, ack_quorum)
        bookies = tuple(await cluster.bookies.choose(quorums.ensemble))
        for attempt in range(1, _CREATE_ATTEMPTS + 1):
            ledger_id = await cluster.store.new_id()
            metadata = LedgerMetadata(
                ledger_id=ledger_id,
                format_version=3,
                state=LedgerState.OPEN,
                last_entry_id=-1,
                payload_bytes=0,
                ensemble_size=quorums.ensemble,
                write_quorum=quorums.write,
                ack_quorum=quorums.ack,
                digest_type=digest,
                password=password,
                segments=((0, bookies),),
                custom=dict(custom or {}),
            )
            try:
                created = await cluster.store.create(metadata, also(ledger_id))
            except LedgerExists:
                if attempt == _CREATE_ATTEMPTS:
                    raise
            else:
                break
        writer = LedgerWriter(
            cluster.store,
            cluster.bookies,
            cluster.connections,
            current=created,
            digest=Digest(digest, password),
            settings=self._settings,
        )
        self._writers.add(writer)
        return writer

    async def open(
        self, ledger_id: int, *, password: bytes = b"", require: Mapping[str, bytes] | None = None
    ) -> LedgerReader:
        """Open a ledger for reading, and leave its writer alone. Of a ledger that is not closed, confirmed entries are read.

        Args:
            ledger_id: 0 to 2^63-1.
            password: that the ledger was created with.
            require: custom metadata that the ledger must have; it may have more.
        Raises:
            LedgerNotFound: there is no such ledger.
            NotOurs: it does not have the custom metadata.
            Unauthorized: it has another password.
            LedgerUnreadable: it is not closed, and too few of its bookies answer.
            LedgerMetadataInvalid: its metadata are damaged.
        """
        cluster = self._cluster()
        found = await _read(cluster.store, ledger_id, require)
        access = LedgerAccess.of(found.metadata, password, cluster.connections, self._settings)
        reader = LedgerReader(cluster.store, found, access)
        if not found.metadata.closed:
            await reader.read_lac()
        return reader

    def reader(self, known: Versioned, *, confirmed: int = -1) -> LedgerReader:
        """Return a reader of a ledger whose metadata are known, without asking ZooKeeper or a bookie.

        It asks ZooKeeper later, when an entry is not where these metadata say. The password is that of the metadata.

        Args:
            known: metadata that were read before, by :meth:`versioned` or by another client of the cluster.
            confirmed: an entry up to which a ledger that is not closed may be read; -1 if none is known.
        """
        cluster = self._cluster()
        access = LedgerAccess.of(known.metadata, known.metadata.password, cluster.connections, self._settings)
        return LedgerReader(cluster.store, known, access, confirmed=confirmed)

    async def versioned(self, ledger_id: int) -> Versioned:
        """Return the metadata of a ledger with their version. The server may be behind others.

        Raises:
            LedgerNotFound: there is no such ledger.
            LedgerMetadataInvalid: they are damaged, or the cluster's layout has no place for the id.
        """
        return await self._cluster().store.read(ledger_id)

    async def recover(
        self, ledger_id: int, *, password: bytes = b"", require: Mapping[str, bytes] | None = None
    ) -> LedgerReader:
        """Open a ledger for reading, and close it first if it is not: its writer can add nothing more from then on.

        All entries that were acknowledged are kept; of others, some may be.

        Args:
            ledger_id: 0 to 2^63-1.
            password: that the ledger was created with.
            require: custom metadata that the ledger must have; it may have more.
        Raises:
            LedgerNotFound: there is no such ledger.
            NotOurs: it does not have the custom metadata.
            Unauthorized: it has another password.
            LedgerUnreadable: too few of its bookies answer to know its last entry. It stays in recovery: recover it again.
            NotEnoughBookies: entries must be stored again, and there are too few bookies. It stays in recovery.
            LedgerMetadataInvalid: its metadata are damaged, or in format 1.
        """
        cluster = self._cluster()
        found = await _read(cluster.store, ledger_id, require)
        access = LedgerAccess.of(found.metadata, password, cluster.connections, self._settings)
        closed = await LedgerRecovery(cluster.store, access, cluster.bookies, password).run(found)
        return LedgerReader(cluster.store, closed, access)

    async def delete(self, ledger_id: int, *, require: Mapping[str, bytes], also: Sequence[Operation] = ()) -> bool:
        """Delete a ledger; return False if there is none, and nothing happened. Bookies drop its entries later.

        Args:
            ledger_id: 0 to 2^63-1.
            require: custom metadata that the ledger must have; it may have more. An empty mapping deletes any ledger.
            also: operations that happen together with the deletion, or not at all.
        Raises:
            NotOurs: it does not have the custom metadata; it stays.
            MetadataConflict: other clients kept changing its metadata.
            LedgerMetadataInvalid: its metadata are damaged, so that nobody knows whose it is.
            NodeExists, NodeChanged, NodeMissing: an operation of ``also`` is refused.
        """
        store = self._cluster().store
        for attempt in range(1, _DELETE_ATTEMPTS + 1):
            try:
                found = await _read(store, ledger_id, require)
                return await store.delete(ledger_id, found.version, also)
            except LedgerNotFound:
                return False
            except MetadataConflict:
                # It was closed meanwhile, for example.
                if attempt == _DELETE_ATTEMPTS:
                    raise
        raise AssertionError("the last attempt returns or raises")

    async def metadata(self, ledger_id: int, *, newest: bool = True) -> LedgerMetadata:
        """Return the metadata of a ledger.

        Args:
            ledger_id: 0 to 2^63-1.
            newest: False asks the session's own server alone, which may be behind others; for many ledgers.
        Raises:
            LedgerNotFound: there is no such ledger.
            LedgerMetadataInvalid: they are damaged.
        """
        return (await self._cluster().store.read(ledger_id, newest=newest)).metadata

    async def ledger_ids(self) -> AsyncGenerator[int, None]:
        """Yield the ids of all ledgers of the cluster, whoever has them, in no order.

        Ledgers that are created or deleted meanwhile may be among them.
        """
        async for ledger_id in self._cluster().store.ids():
            yield ledger_id

    async def unchanged(self, ledger_id: int) -> Check:
        """Return an operation for a multi that requires a ledger to be there, with the metadata that it has now.

        Raises:
            LedgerNotFound: there is no such ledger.
            LedgerMetadataInvalid: they are damaged.
        """
        store = self._cluster().store
        return Check(store.path_of(ledger_id), (await store.read(ledger_id, newest=True)).version)

    @property
    def zookeeper(self) -> ZooKeeperClient:
        """The session, for nodes of the caller's own."""
        self._cluster()
        return self._zookeeper

    @property
    def payload_bytes_max(self) -> int:
        """Size up to which bookies take a payload, whatever its digest, if they take frames as large as the settings say."""
        return self._settings.frame_bytes_max - _FRAME_OVERHEAD_BYTES

    def stats(self) -> Mapping[str, BookieStats]:
        """Return what each bookie was asked and answered so far, by its id; of at most ``BOOKIES_MAX``, and all others."""
        return self._cluster().connections.stats()

    def _cluster(self) -> _Cluster:
        if self._started is None:
            raise ClientClosed("the client is not started, or was closed; use it within async with")
        return self._started


async def _read(store: LedgerStore, ledger_id: int, require: Mapping[str, bytes] | None) -> Versioned:
    """Return the metadata of a ledger that has the required custom metadata."""
    found = await store.read(ledger_id, newest=True)
    custom = found.metadata.custom
    for key, value in (require or {}).items():
        if custom.get(key) != value:
            has = "none" if key not in custom else repr(custom[key])
            raise NotOurs(
                f"ledger {ledger_id} belongs to somebody else: its custom metadata {key!r} is {has}, not {value!r}; give"
                " the id of another ledger"
            )
    return found
