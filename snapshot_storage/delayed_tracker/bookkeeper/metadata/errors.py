"""Errors of ledger metadata and of ZooKeeper, one class for each reaction of the caller."""

from delayed_tracker.bookkeeper.errors import BookKeeperError


class LedgerMetadataInvalid(BookKeeperError):
    """A stored value is not ledger metadata, or is damaged. Nothing can be done with the ledger but inspecting it."""

    reason = "BOOKKEEPER_METADATA_INVALID"


class LedgerNotFound(BookKeeperError):
    """ZooKeeper has no such ledger: it was deleted, or never created."""

    reason = "BOOKKEEPER_LEDGER_NOT_FOUND"


class LedgerExists(BookKeeperError):
    """Another client created a ledger with this id. Take a new id."""

    reason = "BOOKKEEPER_LEDGER_EXISTS"


class MetadataConflict(BookKeeperError):
    """Another client replaced or deleted the metadata since it was read. Read it again and decide anew."""

    reason = "BOOKKEEPER_METADATA_CONFLICT"


class ZooKeeperError(BookKeeperError):
    """Base of what ZooKeeper answers; a call that raises one of its subclasses has changed nothing, save
    :class:`ZooKeeperUnavailable`.
    """

    reason = "ZOOKEEPER_ERROR"

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message, metadata={"path": path})
        self.path = path


class ZooKeeperUnavailable(ZooKeeperError):
    """ZooKeeper did not answer; a write may or may not have happened, or may still happen. Read it back."""

    reason = "ZOOKEEPER_UNAVAILABLE"


class NodeMissing(ZooKeeperError):
    """There is no such node, or no parent for a new one."""

    reason = "ZOOKEEPER_NODE_MISSING"


class NodeExists(ZooKeeperError):
    """The node to create exists."""

    reason = "ZOOKEEPER_NODE_EXISTS"


class NodeChanged(ZooKeeperError):
    """The node does not have the expected version."""

    reason = "ZOOKEEPER_NODE_CHANGED"


class NodeNotEmpty(ZooKeeperError):
    """The node to delete has children."""

    reason = "ZOOKEEPER_NODE_NOT_EMPTY"


class RequestTooLarge(ZooKeeperError):
    """The request is larger than a ZooKeeper takes, which would drop the connection. Store less in one node."""

    reason = "ZOOKEEPER_REQUEST_TOO_LARGE"


class AccessDenied(ZooKeeperError):
    """ZooKeeper refuses this client. Allow it in the ACL; SASL is not supported."""

    reason = "ZOOKEEPER_ACCESS_DENIED"
