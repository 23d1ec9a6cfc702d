"""Makes the BookKeeper client of a URL, for storage and add log."""

from collections.abc import Callable
from typing import TypeAlias

from delayed_tracker.bookkeeper.client import BookKeeper
from delayed_tracker.bookkeeper.settings import ClientSettings
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
