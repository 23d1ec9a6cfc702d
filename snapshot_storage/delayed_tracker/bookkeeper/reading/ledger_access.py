"""The parts that all reads of one ledger share."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from delayed_tracker.bookkeeper.errors import Unauthorized
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from delayed_tracker.bookkeeper.placement.connections import BookieConnections
from delayed_tracker.bookkeeper.placement.quorums import Quorums
from delayed_tracker.bookkeeper.reading.detected_digest import DetectedDigest
from delayed_tracker.bookkeeper.settings import ClientSettings


@dataclass(frozen=True, slots=True)
class LedgerAccess:
    """Finds and verifies the entries of one ledger."""

    ledger_id: int
    quorums: Quorums
    digest: DetectedDigest
    connections: BookieConnections
    settings: ClientSettings

    @classmethod
    def of(
        cls, metadata: LedgerMetadata, password: bytes, connections: BookieConnections, settings: ClientSettings
    ) -> "LedgerAccess":
        """Return the access to a ledger by its metadata and password.

        Raises:
            Unauthorized: the metadata have another password.
        """
        # Only metadata that name the digest have the password, too.
        if metadata.digest_type is not None and metadata.password != password:
            raise Unauthorized(
                f"password: it is not that of ledger {metadata.ledger_id}; give the password that the ledger was created"
                " with"
            )
        quorums = Quorums(metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum)
        return cls(metadata.ledger_id, quorums, DetectedDigest(metadata, password), connections, settings)


def withdraw(replies: Iterable[asyncio.Future[Any]]) -> None:
    """Withdraw requests whose replies are not needed, and leave no exception of theirs unread."""
    for reply in replies:
        if not reply.cancel() and not reply.cancelled():
            reply.exception()
