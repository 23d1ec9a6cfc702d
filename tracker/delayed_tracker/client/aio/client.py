"""Entry point for dispatchers: a connection to the service, and the trackers opened over it.

::

    async with DelayedTrackerClient.connect("127.0.0.1:7650") as client:
        async with await client.open_tracker("persistent://shop/orders/events", "billing") as session:
            await session.add(deliver_at_ms, ledger_id, entry_id)
            async with await session.poll(100, wait_ms=10_000) as lease:
                ...

Programs without an event loop use ``delayed_tracker.client.blocking``, which has the same names.
"""

from collections.abc import AsyncIterator, Iterable
from types import TracebackType
from typing import Self

from delayed_tracker.client.aio.calls import Calls
from delayed_tracker.client.aio.ledgers import LedgerClient
from delayed_tracker.client.aio.session import TrackerSession
from delayed_tracker.client.aio.view import TrackerView
from delayed_tracker.client.errors import NotConnected, SessionClosed
from delayed_tracker.client.model.answers import Position
from delayed_tracker.client.model.bounds import require_type
from delayed_tracker.client.model.channel import require_address
from delayed_tracker.client.model.credentials import NO_CREDENTIALS, ClientCredentials
from delayed_tracker.client.model.reports import TrackerSummary
from delayed_tracker.client.model.settings import ClientSettings
from delayed_tracker.client.queues.importing import ImportAnswer, SnapshotToImport, import_answer, import_requests
from delayed_tracker.client.rules.service import ServiceRules
from delayed_tracker.client.rules.view import ViewRules


class DelayedTrackerClient:
    """Connection to one service. Made by :meth:`connect`. The tasks of one event loop may share it."""

    def __init__(self, address: str, settings: ClientSettings, credentials: ClientCredentials = NO_CREDENTIALS) -> None:
        self._address = require_address(address)
        credentials.require_private(address)
        self._credentials = credentials
        self._rules = ServiceRules(settings)
        self._connected: Calls | None = None

    @classmethod
    def connect(
        cls, address: str, *, settings: ClientSettings | None = None, credentials: ClientCredentials | None = None
    ) -> Self:
        """Connect for the duration of a context: ``async with DelayedTrackerClient.connect(address) as client``.

        Args:
            address: host:port of the service.
            settings: timeouts and batching; None is the defaults.
            credentials: certificates and a token; None connects without encryption and sends no token.
        Raises:
            InvalidInput: a token would go to another machine without encryption; on entering the context, a file of the
                credentials cannot be read or used.
            TlsFailed: on entering the context, client and service do not agree on TLS.
            Unavailable: on entering the context, if no service answers there within ``connect_timeout_s``.
        """
        if settings is None:
            settings = ClientSettings()
        require_type("settings", settings, ClientSettings, "give ClientSettings, or None for the defaults")
        if credentials is None:
            credentials = NO_CREDENTIALS
        require_type("credentials", credentials, ClientCredentials, "give ClientCredentials, or None for none")
        return cls(address, settings, credentials)

    async def __aenter__(self) -> Self:
        if self._connected is not None:
            raise SessionClosed("a client connects once; connect again for another")
        self._connected = Calls(self._address, self._rules.settings, self._credentials)
        try:
            await self._connected.connected()
        except BaseException:
            await self._connected.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._calls.close()

    @property
    def _calls(self) -> Calls:
        if self._connected is None:
            raise NotConnected("async with DelayedTrackerClient.connect(...) as client:")
        return self._connected

    async def open_tracker(
        self, topic: str, subscription: str, *, owner: str | None = None, mark_delete: Position | None = None
    ) -> TrackerSession:
        """Open the tracker of one subscription and own it: older sessions are fenced, all leased positions return.

        Args:
            topic: full topic name, such as ``persistent://tenant/namespace/topic``.
            subscription: its name, not URL-encoded.
            owner: name of the owner, shown to operators and to a fenced owner; None is this host and process.
            mark_delete: the cursor's mark-delete position; everything up to and including it is dropped.
        Returns: a session; ``session.opened`` contains the recovered counts and the position to replay from.
        """
        opened = await self._calls.perform(
            self._rules.open_tracker(topic, subscription, owner=owner, mark_delete=mark_delete)
        )
        return TrackerSession(self._calls, topic, subscription, opened)

    @property
    def ledgers(self) -> LedgerClient:
        """Client for the ledgers that the service reads (``ledgerSourceUrl``)."""
        return LedgerClient(self._calls)

    def view_tracker(self, topic: str, subscription: str) -> TrackerView:
        """Return a view that reads an open tracker without owning it."""
        return TrackerView(self._calls, ViewRules(self._calls.settings, topic, subscription))

    async def import_snapshots(
        self,
        topic: str,
        subscription: str,
        snapshots: Iterable[SnapshotToImport],
        *,
        bucket_count: int,
        owner: str | None = None,
        expected_epoch: int | None = None,
        mark_delete: Position | None = None,
        offered_through: Position | None = None,
    ) -> ImportAnswer:
        """Replace the whole content of a tracker, open or not, by sealed buckets: by all of them, or by none.

        A session that owns the tracker is fenced. Positions that it had added and that no snapshot contains are added
        again by the replay from ``replay_from``, which the next open returns, too.

        Args:
            topic: full topic name.
            subscription: its name, not URL-encoded.
            snapshots: ascending by range, read one by one on the event loop.
            bucket_count: number of the snapshots.
            owner: name of the importer, shown to a fenced owner; None is this host and process.
            expected_epoch: refuse the import if the tracker has another epoch; None accepts any.
            mark_delete: the cursor's position when the snapshots were made.
            offered_through: claim that everything delayed and unacknowledged at or below is in the snapshots; None claims
                nothing. Ignored by a service whose adds are not durable.
        Raises:
            ImportRefused: another import into the tracker is in flight, or the service keeps no snapshots.
            Fenced: the tracker has another epoch, or was opened or cleared in the meantime.
            InvalidArgument: the service found the snapshots damaged.
        """
        header = self._rules.import_header(
            topic,
            subscription,
            owner=owner,
            bucket_count=bucket_count,
            expected_epoch=expected_epoch,
            mark_delete=mark_delete,
            offered_through=offered_through,
        )
        return import_answer(await self._calls.import_stream(import_requests(header, snapshots)))

    async def delete_tracker(self, topic: str, subscription: str) -> int:
        """Delete a tracker with all snapshots, open or not, owned or not, after its subscription was removed.

        Returns: number of positions that it tracked.
        """
        return await self._calls.perform(self._rules.delete_tracker(topic, subscription))

    async def list_trackers(self, topic_prefix: str = "", *, page_size: int = 1_000) -> AsyncIterator[TrackerSummary]:
        """Yield all trackers, open or only on disk, ascending by topic and subscription. Pages are read when needed.

        Args:
            topic_prefix: only topics that begin with this.
            page_size: trackers in one call, 1 to 10,000.
        """
        token = ""
        while True:
            page = await self._calls.perform(
                self._rules.list_trackers(topic_prefix, page_size=page_size, page_token=token)
            )
            for tracker in page.trackers:
                yield tracker
            token = page.next_page_token
            if not token:
                return
