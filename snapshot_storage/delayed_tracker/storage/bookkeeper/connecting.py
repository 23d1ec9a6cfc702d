"""Makes the BookKeeper client of a URL, and ledgers as it says, for storage and add log."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.metadata.zookeeper import Create
from delayed_tracker.bookkeeper.settings import ClientSettings
from delayed_tracker.bookkeeper.writing.writer import LedgerWriter
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl

Connect: TypeAlias = Callable[[BookKeeperUrl], BookKeeper]
"""Returns a client that is not started."""


def client_of(url: BookKeeperUrl) -> BookKeeper:
    """Return a client for a URL, not started.

    Raises:
        InvalidInput: the URL's TLS files cannot be used.
    """
    return BookKeeper(
        url.zookeeper,
        ledgers=url.ledgers,
        settings=ClientSettings(tls=url.bookie_tls()),
        zookeeper_tls=url.zookeeper_tls(),
    )


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
