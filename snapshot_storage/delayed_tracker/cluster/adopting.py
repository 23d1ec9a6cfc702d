"""Adopts the buckets of brokers into a storage of the service: the same bytes, verified, and nothing of the brokers' changed.

The dispatcher that opens an adopted tracker finds the brokers' buckets, and no claim: it offers everything behind its
mark-delete position again, and the tracker knows what it has. So a bucket that cannot be read is left out and listed, and
nothing is lost with it, nor with what brokers have in memory alone.

    properties -> metadata of each ledger -> claim of the tracker -> snapshots, each read back -> catalogue, in one step

A process that is killed leaves snapshots that no catalogue names; the next run, or the owner of the tracker, sweeps them.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final
from uuid import uuid4

from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.adopted import GONE_OR_DAMAGED, AdoptedSubscription, AdoptionOptions, BucketSource, LeftOut
from delayed_tracker.cluster.adoption_copy import AdoptionCopy
from delayed_tracker.cluster.adoption_undo import AdoptedTracker
from delayed_tracker.cluster.bucket_ledger import is_bucket_of
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.cursor_state import read_cursor_state
from delayed_tracker.cluster.errors import ClusterNodeInvalid, CursorChanged
from delayed_tracker.cluster.snapshot_ledger import SnapshotLedger
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.ledger.errors import MetadataInvalid
from delayed_tracker.ledger.metadata.cursor import CursorState
from delayed_tracker.ledger.metadata.managed_ledger import parse_managed_ledger
from delayed_tracker.ledger.topic_name import TopicName
from delayed_tracker.storage.codec.codec import decode_metadata
from delayed_tracker.storage.concurrent import for_each
from delayed_tracker.storage.errors import SnapshotConflict, SnapshotCorrupt, SnapshotNotFound
from delayed_tracker.storage.maintenance.claiming import Claimed, claim_tracker
from delayed_tracker.storage.maintenance.opening import WholeStorage
from delayed_tracker.storage.protocol import NO_LOG, LogMark
from delayed_tracker.storage.summary import encode_summary

SNAPSHOTS_AT_ONCE: Final = 4
"""Snapshots of one subscription that are copied at a time. Each has one read in memory, about 1 MB or one segment."""
_ATTEMPTS: Final = 3
"""Attempts with a subscription whose buckets brokers replace meanwhile."""


class BucketAdoption:
    """Adopts subscriptions of one cluster into one storage.

    Args:
        cluster: is connected.
        target: is started.
        options: ways of adopting.
    """

    def __init__(self, cluster: Cluster, target: WholeStorage, options: AdoptionOptions | None = None) -> None:
        self._cluster = cluster
        self._whole = target
        self._target = target.snapshots
        self._options = options or AdoptionOptions()
        self._attempt = self._options.attempt
        self._writer = f"adopt-{uuid4().hex}"

    async def plan(self, topic: TopicName, subscription: str) -> AdoptedSubscription:
        """Return what :meth:`adopt` would adopt, by the metadata of each bucket; nothing is changed. Raises as that."""
        found = AdoptedSubscription(topic, subscription)
        await self._require_place(found, await self._sources(found, await self._cursor(found)))
        return found

    async def adopt(self, topic: TopicName, subscription: str) -> AdoptedSubscription:
        """Copy all buckets of a subscription that can be read, and name them in the catalogue in one step.

        Raises:
            TopicNotFound, SubscriptionNotFound: it was deleted.
            ClusterNodeInvalid: a node, or the cursor's state, is damaged.
            InvalidInput: the storage has other buckets of the tracker, or records of it in its add log.
            CursorChanged: brokers keep replacing the buckets.
            SnapshotConflict: another process has opened the tracker in the storage.
            SnapshotTooLarge: an entry is larger than the storage takes.
            BackupUnusable: the record cannot be written; nothing of this subscription was adopted.
            LedgerUnreadable, ZooKeeperUnavailable, StorageUnavailable: try again.
        """
        for _ in range(_ATTEMPTS):
            found = AdoptedSubscription(topic, subscription)
            cursor = await self._cursor(found)
            sources = await self._sources(found, cursor)
            if await self._is_replaced(found, cursor):
                continue
            await self._require_place(found, sources)
            if not sources or found.is_there:
                return found
            claimed = await self._claim(found)
            copy = AdoptionCopy(
                self._target,
                found,
                claimed,
                writer=self._writer,
                mark_delete=cursor.state.mark_delete,
                options=self._options,
            )
            if await self._copy_all(copy, sources, found, cursor):
                return found
        raise CursorChanged(f"brokers keep replacing the buckets of {subscription!r} of {topic}; run the command again")

    async def _copy_all(
        self, copy: AdoptionCopy, sources: Sequence[BucketSource], found: AdoptedSubscription, cursor: "_Cursor"
    ) -> bool:
        """Copy buckets and publish them; False if one is gone because brokers have replaced it: then nothing is published."""
        unpublished = True
        try:
            await for_each(sources, copy.copy, at_once=SNAPSHOTS_AT_ONCE)
            self._options.at_point("snapshots.created")
            if await self._is_replaced(found, cursor):
                return False
            if self._options.record is not None:
                key = (str(found.topic), found.subscription)
                self._options.record.adopted(AdoptedTracker(self._whole.name, *key, copy.claimed.epoch))
            # From now on the catalogue may name the copies: a publication that fails undoes what it has done.
            unpublished = False
            await copy.publish(_own_mark(copy.claimed))
        finally:
            if unpublished:
                await asyncio.shield(copy.discard())
        self._options.at_point("tracker.published")
        found.epoch = copy.claimed.epoch
        return True

    async def _is_replaced(self, found: AdoptedSubscription, cursor: "_Cursor") -> bool:
        """Return True if a bucket was left out, and brokers have changed the properties meanwhile."""
        return bool(found.left_out) and set((await self._node(found)).buckets) != set(cursor.node.buckets)

    async def _node(self, found: AdoptedSubscription) -> CursorNode:
        node = await self._cluster.cursor_node(found.topic, found.subscription)
        return CursorNode.decode(node.value, f"cursor {found.subscription!r} of {found.topic}")

    async def _cursor(self, found: AdoptedSubscription) -> "_Cursor":
        """Read properties and acknowledgements of a cursor."""
        name = f"cursor {found.subscription!r} of {found.topic}"
        try:
            managed_ledger = parse_managed_ledger((await self._cluster.topic_node(found.topic)).value)
        except MetadataInvalid as error:
            raise ClusterNodeInvalid(f"the node of {found.topic} does not decode: {error.message}") from error
        node = await self._node(found)
        return _Cursor(node, await read_cursor_state(self._cluster, node, managed_ledger, name=name))

    async def _sources(self, found: AdoptedSubscription, cursor: "_Cursor") -> list[BucketSource]:
        """Read the metadata of each bucket, ascending by range; note the sums, and what is left out."""
        sources: list[BucketSource] = []

        async def look(named: BucketProperty) -> None:
            try:
                sources.append(await self._source(found, named, cursor.state))
            except GONE_OR_DAMAGED as error:
                self._leave_out(found, named, f"{error.message}.")

        await for_each(cursor.node.buckets, look, at_once=SNAPSHOTS_AT_ONCE)
        found.note(sources)
        return sources

    async def _source(self, found: AdoptedSubscription, named: BucketProperty, state: CursorState) -> BucketSource:
        """Open a bucket and read its metadata; raise one of the errors of a bucket that is left out."""
        if named.ledgers is None or named.bucket_id is None:
            raise SnapshotNotFound(f"{named.name!r} = {named.value!r} names no range and ledger")
        ledger = SnapshotLedger(await self._cluster.client.open(named.bucket_id), throttle=self._cluster.throttle)
        opened = ledger.reader.metadata
        if not is_bucket_of(opened, found.topic, found.subscription):
            raise SnapshotNotFound(f"ledger {named.bucket_id} is no bucket of this subscription")
        if not opened.closed:
            raise SnapshotNotFound(f"ledger {named.bucket_id} is not closed")
        metadata = await ledger.metadata_entry()
        decoded = await asyncio.to_thread(decode_metadata, metadata)
        bits = decoded.positions()
        first, last = bits.first(), bits.last()
        if first is None or last is None or len(decoded.bounds) != ledger.reader.last_confirmed:
            raise SnapshotCorrupt(
                f"ledger {named.bucket_id} has {ledger.reader.last_confirmed} segments where its metadata has "
                f"{len(decoded.bounds)}, with {len(bits)} messages"
            )
        summary = encode_summary(decoded.bounds, bits, opened.payload_bytes)
        consumed = _intersection(bits, state.acked)
        stored = consumed.serialize() if len(consumed) else b""
        return BucketSource(named, ledger, metadata, decoded.bounds.count, len(bits), first, last, summary, stored)

    def _leave_out(self, found: AdoptedSubscription, named: BucketProperty, reason: str) -> None:
        found.left_out.append(LeftOut(named, reason))
        self._options.copied(1)

    async def _require_place(self, found: AdoptedSubscription, sources: Iterable[BucketSource]) -> None:
        """Note whether the storage has exactly these buckets; refuse one that has others."""
        state = await self._attempt(partial(self._target.list, str(found.topic), found.subscription))
        if not state.entries and not state.corrupt:
            return
        ours = Counter((source.first, source.last, source.summary) for source in sources)
        if state.corrupt or ours != Counter((entry.first, entry.last, entry.summary) for entry in state.entries):
            raise InvalidInput(
                "--to",
                self._whole.name,
                f"it has {len(state.entries) + len(state.corrupt)} other buckets of {found.subscription!r} of {found.topic}; "
                "delete the tracker with `delayed-tracker delete`, leave it out, or give another storage",
            )
        found.is_there, found.epoch = True, state.epoch

    async def _claim(self, found: AdoptedSubscription) -> Claimed:
        """Take the tracker over in the storage, and sweep what killed runs have left."""
        key = (str(found.topic), found.subscription)
        claimed = await claim_tracker(self._target, self._whole.log, key, writer=self._writer, attempt=self._attempt)
        claimed.require_own(key)
        if claimed.state.entries or claimed.state.corrupt:
            raise SnapshotConflict(
                f"another process has stored buckets of {key[1]!r} of {key[0]!r} meanwhile; look at them"
            )
        mark, extent = claimed.state.log_mark, claimed.extent
        if extent is not None and not mark.log and extent.last_number > mark.number:
            raise InvalidInput(
                "--to",
                self._whole.name,
                f"its add log has {extent.last_number - mark.number} records of {key[1]!r} of {key[0]!r}; delete the tracker with "
                "`delayed-tracker delete`, leave it out, or give another storage",
            )
        for stored in await self._attempt(partial(self._target.list_bucket_snapshots, *key)):
            if stored.epoch < claimed.epoch:
                await self._attempt(partial(self._target.delete_bucket_snapshot, stored.bucket_id))
        return claimed


@dataclass(frozen=True, slots=True)
class _Cursor:
    """A cursor as it was read."""

    node: CursorNode
    state: CursorState


def _own_mark(claimed: Claimed) -> LogMark:
    """Return a mark that claims nothing, and under which no record of any log counts."""
    return LogMark(0, log=NO_LOG) if claimed.extent is None else LogMark(claimed.extent.last_number)


def _intersection(bits: PositionBitmap, others: PositionBitmap) -> PositionBitmap:
    found = {}
    for ledger, bitmap in bits.bitmaps():
        theirs = others.bitmap_of(ledger)
        if theirs is not None:
            found[ledger] = bitmap & theirs
    return PositionBitmap.from_bitmaps(found)
