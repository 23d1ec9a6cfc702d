"""Writes, reads and deletes the ledgers that have bucket snapshots, as Pulsar's own.

Entry 0 is the metadata, entries 1 and up are the segments; the password is empty. Only ledgers whose custom metadata says
``component=delayed-index-bucket`` are read or deleted.

Source: Pulsar's BookkeeperBucketSnapshotStorage and LedgerMetadataUtils.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterable, AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Final

from delayed_tracker.bookkeeper.errors import (
    BookKeeperError,
    LedgerUnreadable,
    NotEnoughBookies,
    NotOurs,
    Unauthorized,
)
from delayed_tracker.bookkeeper.metadata.errors import LedgerMetadataInvalid, LedgerNotFound, MetadataConflict
from delayed_tracker.bookkeeper.metadata.ledger_metadata import LedgerMetadata
from delayed_tracker.bookkeeper.wire.digest import DigestType
from delayed_tracker.bookkeeper.writing.streaming import add_stream
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.cursor_node import BUCKET_PREFIX
from delayed_tracker.ledger.metadata.managed_ledger import ManagedLedger
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.storage.bookkeeper.registrations import ROOT_KEY

OF_BUCKETS: Final[Mapping[str, bytes]] = {"application": b"pulsar", "component": b"delayed-index-bucket"}
"""Custom metadata of every ledger that has a bucket snapshot."""
KEY: Final = "pulsar/delayedIndexBucketKey"
TOPIC: Final = "pulsar/delayedIndexTopic"
CURSOR: Final = "pulsar/delayedIndexCursor"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LedgerForm:
    """Ensemble, quorums and digest of new ledgers."""

    ensemble: int
    write_quorum: int
    ack_quorum: int
    digest: DigestType


async def ledger_form(cluster: Cluster, managed_ledger: ManagedLedger) -> LedgerForm:
    """Return the form of a topic's new bucket ledgers: that of its newest ledger, save for what the address says.

    Without any ledger it is 2, 2, 2 and CRC32C, Pulsar's defaults.

    Raises:
        LedgerMetadataInvalid: the metadata of the newest ledger are damaged.
        ZooKeeperUnavailable: ZooKeeper does not answer.
    """
    given = cluster.address.connection
    form = LedgerForm(given.ensemble, given.write_quorum, given.ack_quorum, given.digest)
    if cluster.address.has_quorums and cluster.address.has_digest:
        return form
    for ledger in reversed(managed_ledger.ledgers):
        try:
            found = await cluster.client.metadata(ledger.ledger_id)
        except LedgerNotFound:
            continue  # offloaded, or trimmed meanwhile
        has_quorums = cluster.address.has_quorums
        return LedgerForm(
            form.ensemble if has_quorums else found.ensemble_size,
            form.write_quorum if has_quorums else found.write_quorum,
            form.ack_quorum if has_quorums else found.ack_quorum,
            form.digest if cluster.address.has_digest or found.digest_type is None else found.digest_type,
        )
    return form


def bucket_metadata(topic: TopicName, subscription: str, first_ledger: int, last_ledger: int) -> dict[str, bytes]:
    """Return the custom metadata of a bucket with messages of these ledgers, both included."""
    return {
        **OF_BUCKETS,
        KEY: f"{BUCKET_PREFIX}_{first_ledger}_{last_ledger}".encode(),
        TOPIC: str(topic).encode(),
        CURSOR: subscription.encode(),
    }


def is_bucket(metadata: LedgerMetadata) -> bool:
    """Return True if a ledger has a snapshot of Pulsar's tracker, by its custom metadata; not for one of our own storage."""
    custom = metadata.custom
    return ROOT_KEY not in custom and all(custom.get(key) == value for key, value in OF_BUCKETS.items())


def is_bucket_of(metadata: LedgerMetadata, topic: TopicName, subscription: str) -> bool:
    """Return True if a ledger has a bucket snapshot that was written for this subscription."""
    custom = metadata.custom
    owner = (custom.get(TOPIC), custom.get(CURSOR))
    return is_bucket(metadata) and owner == (str(topic).encode(), subscription.encode())


async def create_bucket_ledger(
    cluster: Cluster, form: LedgerForm, custom: Mapping[str, bytes], entries: AsyncIterable[bytes]
) -> int:
    """Write a snapshot into a new ledger, close it, and return its id. On any error or cancellation it is deleted again.

    A process that is killed meanwhile leaves a ledger that no property names, which ``pulsar repair`` finds.

    Args:
        cluster: is connected.
        form: of the ledger.
        custom: of :func:`bucket_metadata`.
        entries: metadata, then segments; consumed once. The first is acknowledged before the others are sent.
    Raises:
        EntryTooLarge: an entry is larger than bookies take.
        NotEnoughBookies: fewer bookies than the form needs take entries.
        BookKeeperError: bookies or ZooKeeper failed.
    """
    client = cluster.client
    writer = await client.create(
        ensemble=form.ensemble,
        write_quorum=form.write_quorum,
        ack_quorum=form.ack_quorum,
        digest=form.digest,
        custom=custom,
    )
    finished = False
    try:
        await add_stream(writer, entries)
        await writer.close()
        finished = True
    finally:
        if not finished:
            await asyncio.shield(_discard(cluster, writer.ledger_id))
    _LOG.info("ledger %d: created for %s", writer.ledger_id, custom.get(KEY, b"").decode("utf-8", "replace"))
    return writer.ledger_id


async def close_bucket_ledger(cluster: Cluster, metadata: LedgerMetadata) -> str:
    """Close a bucket ledger that its writer has left open: its last entry is not confirmed, and would not be read.

    Args:
        cluster: is connected.
        metadata: of the ledger, which is a bucket's; no broker has its topic loaded. Nothing happens if it is closed.
    Returns: why it cannot be closed now; empty if it is closed.
    Raises:
        LedgerNotFound: there is no such ledger.
        NotOurs: it has no bucket snapshot.
        ZooKeeperUnavailable: ZooKeeper does not answer.
    """
    if not metadata.closed:
        try:
            await cluster.client.recover(metadata.ledger_id, require=OF_BUCKETS)
        except (LedgerUnreadable, NotEnoughBookies, Unauthorized, LedgerMetadataInvalid, MetadataConflict) as error:
            _LOG.warning("ledger %d: cannot be closed (%s)", metadata.ledger_id, error.message)
            return error.message
    return ""


async def read_bucket_ledger(cluster: Cluster, ledger_id: int) -> AsyncIterator[bytes]:
    """Yield the entries of a bucket ledger, verified, a few megabytes at a time.

    An open ledger is read as far as it is confirmed, and stays open.

    Raises:
        LedgerNotFound: there is no such ledger.
        NotOurs: it has no bucket snapshot.
        EntryMissing, LedgerUnreadable, DigestMismatch: an entry cannot be read.
    """
    reader = await cluster.client.open(ledger_id, require=OF_BUCKETS)
    async for entry in reader.entries():
        yield bytes(entry.payload)


async def delete_bucket_ledger(cluster: Cluster, ledger_id: int) -> None:
    """Delete a bucket ledger that no property names any more; nothing happens if there is none.

    Raises:
        NotOurs: it has no bucket snapshot, or one of our own storage; it stays.
        ZooKeeperUnavailable: ZooKeeper does not answer.
    """
    try:
        if ROOT_KEY in (await cluster.client.metadata(ledger_id)).custom:
            raise NotOurs(f"ledger {ledger_id} belongs to a storage of this service; give the id of another ledger")
    except LedgerNotFound:
        return
    await cluster.client.delete(ledger_id, require=OF_BUCKETS)
    _LOG.info("ledger %d: deleted", ledger_id)


async def _discard(cluster: Cluster, ledger_id: int) -> None:
    """Delete a ledger that was written in part. What cannot be deleted now is found by ``pulsar repair``."""
    with contextlib.suppress(BookKeeperError):
        await delete_bucket_ledger(cluster, ledger_id)
