"""Makes the BookKeeper client of a URL, which storage and add log share, and ledgers as the URL says."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.metadata.zookeeper import Create
from delayed_tracker.bookkeeper.settings import REPLY_BYTES_MAX, ClientSettings
from delayed_tracker.bookkeeper.writing.writer import LedgerWriter
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl

Connect: TypeAlias = Callable[[BookKeeperUrl], AbstractAsyncContextManager[BookKeeper]]
"""Returns what starts a client, and closes it."""


def client_of(url: BookKeeperUrl, *, reply_bytes_max: int = REPLY_BYTES_MAX) -> BookKeeper:
    """Return a client for a URL, not started.

    Args:
        url: of the storage.
        reply_bytes_max: most bytes of a bookie's reply; more than the default where others write larger entries.
    Raises:
        InvalidInput: the URL's TLS files cannot be used.
    """
    return BookKeeper(
        url.zookeeper,
        ledgers=url.ledgers,
        settings=ClientSettings(tls=url.bookie_tls(), reply_bytes_max=reply_bytes_max),
        zookeeper_tls=url.tls.of_zookeeper(),
    )


@dataclass(slots=True)
class _Shared:
    """A client with several users."""

    client: BookKeeper | None = None
    """None until it is started."""
    user_count: int = 0
    """Users that have it, or wait for its start."""
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)


_SHARED: Final[dict[tuple[object, ...], _Shared]] = {}
"""Clients in use, by event loop and cluster."""


@asynccontextmanager
async def shared_client_of(url: BookKeeperUrl) -> AsyncIterator[BookKeeper]:
    """Give the client that all users of a cluster in this event loop have: the first starts it, the last closes it.

    Storage and add log have one session with ZooKeeper and one connection to each bookie this way.

    Raises:
        InvalidInput: the URL's TLS files cannot be used.
        ZooKeeperUnavailable, LedgerMetadataInvalid: it cannot be started.
    """
    key = (asyncio.get_running_loop(), *url.cluster)
    shared = _SHARED.setdefault(key, _Shared())
    shared.user_count += 1
    try:
        async with shared.turn:
            if shared.client is None:
                shared.client = await client_of(url).__aenter__()
        yield shared.client
    finally:
        shared.user_count -= 1
        if not shared.user_count:
            # Whoever comes from now on gets another one.
            del _SHARED[key]
            if shared.client is not None:
                await shared.client.__aexit__(None, None, None)


async def create_ledger(
    client: BookKeeper, url: BookKeeperUrl, custom: Mapping[str, bytes], node_of: Callable[[int], str]
) -> LedgerWriter:
    """Create a ledger on as many bookies as a URL says, and its node, in one step.

    Args:
        client: is started.
        url: ensemble, quorums and digest.
        custom: custom metadata.
        node_of: returns the path of the node for the ledger's id.
    """
    return await client.create(
        ensemble=url.ensemble,
        write_quorum=url.write_quorum,
        ack_quorum=url.ack_quorum,
        digest=url.digest,
        custom=custom,
        also=lambda ledger_id: [Create(node_of(ledger_id))],
    )
