"""Opens a metadata store: a dump file or ZooKeeper.

FILE                            a dump, see delayed_tracker.ledger.metadata.metadata_dump
zk:HOST:PORT[,HOST:PORT][/ROOT] ZooKeeper, with the cluster's root if it has one
"""

import weakref
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from delayed_tracker.bookkeeper.metadata.kazoo_log import quiet_logger
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import MetadataUnavailable
from delayed_tracker.ledger.metadata.metadata_dump import MetadataDump, MetadataSource

_ZOOKEEPER: Final = "zk:"
_CONNECT_S: Final = 15.0


def open_metadata(place: str | Path) -> MetadataSource:
    """Open the metadata store at a place.

    Raises:
        InvalidInput: no addresses of ZooKeeper, or the ZooKeeper client is not installed.
        LedgerFileInvalid: the file is cut short or not a dump.
        MetadataUnavailable: ZooKeeper does not answer.
        OSError: the file cannot be read.
    """
    if isinstance(place, Path) or not place.startswith(_ZOOKEEPER):
        return MetadataDump.load(place)
    return ZooKeeperMetadata(place)


class ZooKeeperMetadata:
    """A :class:`~delayed_tracker.ledger.metadata.metadata_dump.MetadataSource` that reads from ZooKeeper on each call.

    It never writes. It stays connected until it is garbage-collected.
    """

    def __init__(self, place: str) -> None:
        """Connect.

        Raises:
            InvalidInput: no addresses, or kazoo is not installed.
            MetadataUnavailable: no server answers.
        """
        self.name = place
        hosts, slash, root = place.removeprefix(_ZOOKEEPER).partition("/")
        if not hosts:
            raise InvalidInput(
                "metadata", place, "give zk:HOST:PORT, several divided by commas, and /ROOT if there is one"
            )
        kazoo: Any = _kazoo(place)
        self._failures = (kazoo.exceptions.KazooException, kazoo.handlers.threading.KazooTimeoutError)
        self._no_node = kazoo.exceptions.NoNodeError
        self._client = kazoo.client.KazooClient(
            hosts=f"{hosts}{slash}{root}".rstrip("/"), read_only=True, logger=quiet_logger()
        )
        weakref.finalize(self, _end, self._client)
        try:
            self._client.start(timeout=_CONNECT_S)
        except self._failures as error:
            raise MetadataUnavailable(
                f"{place} does not answer within {_CONNECT_S:g} s; start it or correct the address"
            ) from error

    def get(self, path: str) -> bytes | None:
        """Return the value of a node, empty bytes if it has none; None if there is no such node.

        Raises:
            OSError: ZooKeeper does not answer.
        """
        try:
            value, _ = self._client.get(path)
        except self._no_node:
            return None
        except self._failures as error:
            raise OSError(f"{path} cannot be read from {self.name}: {error}") from error
        return bytes(value or b"")

    def children(self, path: str) -> Sequence[str]:
        """Return the names of the nodes directly below a path, ascending; empty if there is no such node.

        Raises:
            OSError: ZooKeeper does not answer.
        """
        try:
            return sorted(self._client.get_children(path))
        except self._no_node:
            return ()
        except self._failures as error:
            raise OSError(f"{self.name} cannot be asked for what is below {path}: {error}") from error


def _kazoo(place: str) -> Any:
    try:
        for module in ("kazoo.client", "kazoo.exceptions", "kazoo.handlers.threading"):
            import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidInput(
            "metadata", place, "install the ZooKeeper client: pip install 'delayed-tracker[spark]', or give a dump"
        ) from error
    return import_module("kazoo")


def _end(client: Any) -> None:
    client.stop()
    client.close()
