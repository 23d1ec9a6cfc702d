"""Takes back what a command has changed in a cluster, by the file of its ``--backup``.

For each cursor in the file: ledgers that the command deleted are written again, the bucket properties of before take the
place of those that the command left, and the ledgers that it created are deleted. Everything else of a cursor's node, such
as its mark-delete position, stays as it is now. A step that was done already is skipped, so that the same command can be
run again after a failure. For a subscription that was deleted since there is nothing to restore: it is left out, and only
the ledgers that the command created for it are deleted.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

from delayed_tracker.bookkeeper.metadata.errors import LedgerNotFound
from delayed_tracker.cluster.address import Cluster
from delayed_tracker.cluster.bucket_ledger import create_bucket_ledger, delete_bucket_ledger, is_bucket
from delayed_tracker.cluster.change_record import ChangeRecord, DeletedLedger, RecordedChanges
from delayed_tracker.cluster.cursor_node import BucketProperty, CursorNode
from delayed_tracker.cluster.errors import BackupInvalid, CursorChanged
from delayed_tracker.cluster.switch import LOAD_S, require_not_loaded, write_cursor
from delayed_tracker.ledger.errors import SubscriptionNotFound
from delayed_tracker.ledger.progress import Progress
from delayed_tracker.ledger.topic_name import TopicName

Cursor = tuple[TopicName, str]
"""Topic and subscription."""


@dataclass(frozen=True, slots=True)
class CursorRestoration:
    """Buckets of one cursor before and after the changes that are taken back."""

    topic: TopicName
    subscription: str
    before: tuple[BucketProperty, ...]
    """Bucket properties before the command's first change."""
    after: tuple[BucketProperty, ...]
    """Those that its last change left."""
    is_done: bool
    """True if the cursor has those of before already."""
    is_deleted: bool = False
    """True if the subscription, or its topic, was deleted since: it is left out."""

    @property
    def is_waiting(self) -> bool:
        """True if the cursor is to be changed."""
        return not self.is_done and not self.is_deleted


@dataclass(slots=True)
class Restored:
    """Counts of a restoration."""

    cursor_count: int = 0
    """Cursors that have their old bucket properties again."""
    unchanged_count: int = 0
    """Cursors that had them already."""
    written_ledger_count: int = 0
    """Deleted ledgers that were written again."""
    deleted_ledger_count: int = 0
    """Ledgers of the command that were deleted."""
    removed_tracker_count: int = 0
    """Adopted trackers that were removed from their storage."""
    left_out: tuple[str, ...] = ()
    """Properties of before whose ledgers do not exist, and are not in the file: a broker could not load them."""


async def plan_restoration(cluster: Cluster, changes: RecordedChanges) -> list[CursorRestoration]:
    """Compare the cursors of a file with those of the cluster.

    Raises:
        BackupInvalid: the file is of another cluster.
        CursorChanged: the buckets of a cursor are neither those of before nor those that the command left.
        ClusterNodeInvalid: a node is damaged.
        ZooKeeperUnavailable: ZooKeeper does not answer.
    """
    instance = await cluster.instance()
    if (changes.root, changes.instance) != (cluster.address.root, instance):
        raise BackupInvalid(
            f"{changes.path}: it is of the cluster {changes.instance or 'without an id'} at {changes.root or '/'}, and "
            f"{cluster.address.text} is {instance or 'without an id'} at {cluster.address.root or '/'}; give the other cluster"
        )
    ends: dict[Cursor, tuple[tuple[BucketProperty, ...], tuple[BucketProperty, ...]]] = {}
    for write in changes.writes:
        name = f"cursor {write.subscription!r} of {write.topic} in {changes.path}"
        before = CursorNode.decode(write.before, name).buckets
        key = (write.topic, write.subscription)
        ends[key] = (ends[key][0] if key in ends else before, CursorNode.decode(write.after, name).buckets)
    planned = []
    for (topic, subscription), (before, after) in ends.items():
        name = f"cursor {subscription!r} of {topic}"
        try:
            node = await cluster.cursor_node(topic, subscription)
        except SubscriptionNotFound:
            planned.append(CursorRestoration(topic, subscription, before, after, is_done=False, is_deleted=True))
            continue
        now = CursorNode.decode(node.value, name).buckets
        is_done = set(now) == set(before) or await _is_restored(cluster, changes, before, now)
        if not is_done and set(now) != set(after):
            raise CursorChanged(
                f"the buckets of {name} were changed since: it has {len(now)}, the command left {len(after)}; publish them "
                "anew, or remove them with `delayed-tracker pulsar repair`"
            )
        planned.append(CursorRestoration(topic, subscription, before, after, is_done))
    return planned


async def restore(
    cluster: Cluster,
    changes: RecordedChanges,
    planned: Sequence[CursorRestoration],
    *,
    record: ChangeRecord,
    load_s: float = LOAD_S,
    report: Callable[[str], None] | None = None,
    progress: Progress = lambda _done, _total: None,
) -> Restored:
    """Take the changes back.

    Args:
        cluster: is connected.
        changes: of the file.
        planned: of :func:`plan_restoration`.
        record: the same file, opened to append to it.
        load_s: as of ``require_not_loaded``.
        report: as of ``require_not_loaded``.
        progress: called with the number of cursors and ledgers that are done, and of all.
    Raises:
        TopicLoaded, TopicTerminated, BrokerUnavailable: as ``require_not_loaded``; nothing was changed.
        CursorChanged: another process changes a cursor.
        BookKeeperError: a ledger cannot be written. Run the same command again.
        BackupUnusable: the file cannot be written.
    """
    waiting = [one for one in planned if one.is_waiting]
    unloaded = await require_not_loaded(cluster, [one.topic for one in waiting], load_s=load_s, report=report)
    restored = Restored(unchanged_count=sum(one.is_done for one in planned))
    total = len(planned) + len(changes.deleted) + len(changes.created)
    done = len(planned) - len(waiting)
    progress(done, total)
    unneeded = _unneeded_ledgers(planned)
    for ledger in changes.deleted.values():
        needed = ledger.entry_count and ledger.ledger_id not in unneeded
        if needed and not await _exists(cluster, changes.restored.get(ledger.ledger_id, ledger.ledger_id)):
            written = await create_bucket_ledger(cluster, ledger.form, ledger.custom, _entries(changes, ledger))
            record.restored(ledger.ledger_id, written)
            changes.restored[ledger.ledger_id] = written
            restored.written_ledger_count += 1
        done += 1
        progress(done, total)
    for one in waiting:
        buckets, missing = await _existing(cluster, [_rewritten(bucket, changes) for bucket in one.before])
        restored.left_out += tuple(f"{bucket.name} of {one.subscription!r} of {one.topic}" for bucket in missing)

        def change(
            node: CursorNode, one: CursorRestoration = one, buckets: list[BucketProperty] = buckets
        ) -> CursorNode:
            if set(node.buckets) != set(one.after):
                raise CursorChanged(
                    f"the buckets of cursor {one.subscription!r} of {one.topic} were changed meanwhile; run the command again"
                )
            return node.with_buckets(buckets)

        also = [await cluster.client.unchanged(bucket.bucket_id) for bucket in buckets if bucket.bucket_id is not None]
        await write_cursor(cluster, unloaded[one.topic], one.subscription, change, also=also)
        restored.cursor_count += 1
        done += 1
        progress(done, total)
    named = await _named(cluster, [(topic, subscription) for topic, subscription, _ in changes.created])
    for topic, subscription, ledger_id in changes.created:
        # The properties do not name it any more: Pulsar's own order would leave a property without a ledger for a moment.
        if ledger_id not in named[topic, subscription] and await _exists(cluster, ledger_id):
            await delete_bucket_ledger(cluster, ledger_id)
            restored.deleted_ledger_count += 1
        done += 1
        progress(done, total)
    return restored


def _unneeded_ledgers(planned: Sequence[CursorRestoration]) -> set[int]:
    """Return the ledgers that only subscriptions had that were deleted since: written again, no property would name them."""
    named: dict[bool, set[int]] = {True: set(), False: set()}
    for one in planned:
        named[one.is_deleted].update(bucket.bucket_id for bucket in one.before if bucket.bucket_id is not None)
    return named[True] - named[False]


async def _is_restored(
    cluster: Cluster, changes: RecordedChanges, before: Sequence[BucketProperty], now: Sequence[BucketProperty]
) -> bool:
    """Return True if an earlier run has restored a cursor, with ledgers that it has written again."""
    if not any(bucket.bucket_id in changes.restored for bucket in before):
        return False
    there, _ = await _existing(cluster, [_rewritten(bucket, changes) for bucket in before])
    return set(now) == set(there)


def _rewritten(bucket: BucketProperty, changes: RecordedChanges) -> BucketProperty:
    """Return a property with the ledger that has its snapshot now."""
    written = None if bucket.bucket_id is None else changes.restored.get(bucket.bucket_id)
    return bucket if written is None else BucketProperty(bucket.name, str(written))


async def _existing(
    cluster: Cluster, buckets: Sequence[BucketProperty]
) -> tuple[list[BucketProperty], list[BucketProperty]]:
    """Divide properties into those whose bucket ledgers exist, and the others."""
    there: list[BucketProperty] = []
    missing: list[BucketProperty] = []
    for bucket in buckets:
        exists = bucket.ledgers is not None and bucket.bucket_id is not None
        (there if exists and await _exists(cluster, bucket.bucket_id or 0) else missing).append(bucket)
    return there, missing


async def _exists(cluster: Cluster, ledger_id: int) -> bool:
    try:
        return is_bucket(await cluster.client.metadata(ledger_id))
    except LedgerNotFound:
        return False


async def _named(cluster: Cluster, cursors: Sequence[Cursor]) -> Mapping[Cursor, set[int]]:
    """Return the bucket ledgers that the properties of cursors name now: none, if the cursor was deleted."""
    found: dict[Cursor, set[int]] = {}
    for topic, subscription in dict.fromkeys(cursors):
        try:
            node = CursorNode.decode((await cluster.cursor_node(topic, subscription)).value)
        except SubscriptionNotFound:
            found[topic, subscription] = set()
            continue
        found[topic, subscription] = {bucket.bucket_id for bucket in node.buckets if bucket.bucket_id is not None}
    return found


async def _entries(changes: RecordedChanges, ledger: DeletedLedger) -> AsyncIterator[bytes]:
    for entry in changes.entries(ledger):
        yield entry
