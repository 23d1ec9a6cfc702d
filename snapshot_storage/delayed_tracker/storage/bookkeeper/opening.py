"""Factories of storage and add log over BookKeeper, for their URLs. Those of one cluster share a client."""

from delayed_tracker.storage.bookkeeper.connecting import shared_client_of
from delayed_tracker.storage.bookkeeper.log.add_log import BookKeeperAddLog
from delayed_tracker.storage.bookkeeper.storage import BookKeeperStorage
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl


def open_bookkeeper(rest: str) -> BookKeeperStorage:
    """Return the storage of ``bookkeeper:zk://HOST:PORT[,HOST:PORT]/LEDGERS?root=…``; not started.

    Raises:
        InvalidInput: the URL is none, or its TLS files cannot be used.
    """
    return BookKeeperStorage(BookKeeperUrl.parse(rest), connect=shared_client_of)


def open_bookkeeper_log(rest: str) -> BookKeeperAddLog:
    """Return the add log beside that storage, with the same ensemble and quorums; not started.

    Raises:
        InvalidInput: the URL is none, or its TLS files cannot be used.
    """
    return BookKeeperAddLog(BookKeeperUrl.parse(rest), connect=shared_client_of)
