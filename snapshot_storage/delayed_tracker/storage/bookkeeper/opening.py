"""Factories of storage and add log over BookKeeper, for their URLs."""

from delayed_tracker.storage.bookkeeper.log.add_log import BookKeeperAddLog
from delayed_tracker.storage.bookkeeper.storage import BookKeeperStorage
from delayed_tracker.storage.bookkeeper.url import BookKeeperUrl


def open_bookkeeper(rest: str) -> BookKeeperStorage:
    """Return the storage of ``bookkeeper:zk://HOST:PORT[,HOST:PORT]/LEDGERS?root=…``; not started.

    Raises:
        InvalidInput: the URL is none, or its TLS files cannot be used.
    """
    return BookKeeperStorage(BookKeeperUrl.parse(rest))


def open_bookkeeper_log(rest: str) -> BookKeeperAddLog:
    """Return the add log beside that storage, with the same ensemble and quorums; not started.

    Raises:
        InvalidInput: the URL is none, or its TLS files cannot be used.
    """
    return BookKeeperAddLog(BookKeeperUrl.parse(rest))
