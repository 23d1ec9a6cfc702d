"""Plan of one subscription, made on the driver: its buckets with their positions, and the start of the replay."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from pyroaring import BitMap

from delayed_tracker.core.values.columns import BEFORE_ALL, ENTRY_ID_MAX, Position
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.spark.plan.acceptance import IndexOutcome
from delayed_tracker.spark.plan.bucket_plan import BucketPlan, plan_buckets
from delayed_tracker.spark.plan.part_plan import Bucket
from delayed_tracker.spark.plan.subscribers import Subscriber
from delayed_tracker.spark.steps.counting import LedgerTally
from delayed_tracker.spark.steps.unread import Unread
from delayed_tracker.spark.summary import TrackerSummary


@dataclass(frozen=True, slots=True, eq=False)
class TrackerPlan:
    """Plan of one subscription."""

    subscriber: Subscriber
    plan: BucketPlan
    buckets: tuple[Bucket, ...]
    """Buckets of ``plan``, with their positions."""
    tallies: Mapping[int, LedgerTally]
    """Tallies by ledger, ascending."""
    unread: Unread

    def summary(self) -> TrackerSummary:
        """Return the summary of this subscription, before anything is written."""
        outcomes = sum((tally.outcomes for tally in self.tallies.values()), np.zeros(len(IndexOutcome), np.int64))
        written = sum(bucket.index_count for bucket in self.plan.buckets)
        return TrackerSummary(
            topic=self.subscriber.topic,
            subscription=self.subscriber.subscription,
            mark_delete=self.subscriber.cursor.mark_delete,
            delayed=int(outcomes.sum()),
            acknowledged=int(outcomes[IndexOutcome.ACKNOWLEDGED]),
            aborted=int(outcomes[IndexOutcome.ABORTED]),
            open_transaction=int(outcomes[IndexOutcome.OPEN_TRANSACTION]),
            due=int(outcomes[IndexOutcome.DUE]),
            beyond_max_delay=int(outcomes[IndexOutcome.BEYOND_MAX_DELAY]),
            duplicate=int(outcomes[IndexOutcome.ACCEPTED]) - written - self.plan.tail_count,
            written=written,
            tail=self.plan.tail_count,
            buckets=len(self.buckets),
            merges=self.plan.merge_count,
            snapshot_bytes=0,
            replay_from=self._replay_from(),
            unread=self.unread.count,
        )

    def offered_through(self) -> Position:
        """Return the last position that the dispatcher need not offer again; BEFORE_ALL if it must offer everything."""
        replay_from = self._replay_from()
        if replay_from is None:
            return max((bucket.last for bucket in self.plan.buckets), default=BEFORE_ALL)
        return Position(replay_from.ledger_id, replay_from.entry_id - 1)

    def _replay_from(self) -> Position | None:
        left = [
            Position(ledger, tally.first_remaining)
            for ledger, tally in self.tallies.items()
            if tally.first_remaining is not None
        ]
        tail = [] if self.plan.tail_first is None else [self.plan.tail_first]
        unread = [] if self.unread.first is None else [self.unread.first]
        return min([*left[:1], *tail, *unread], default=None)


def plan_tracker(
    subscriber: Subscriber,
    tallies: Mapping[int, LedgerTally],
    limits: TrackerLimits,
    *,
    too_large: Collection[tuple[Position, Position]],
    whole_ledgers: bool,
    unread: Unread,
) -> TrackerPlan:
    """Plan one subscription.

    Args:
        subscriber: the subscription.
        tallies: by ledger, ascending.
        limits: of the tracker.
        whole_ledgers: as of ``plan_buckets``.
        too_large: merged buckets that must not be made, by first and last position.
        unread: entries that it may lack.
    """
    plan = plan_buckets(
        [(ledger, len(tally.bits)) for ledger, tally in tallies.items()],
        limits,
        entry_at=lambda ledger, rank: tallies[ledger].bits[rank],
        too_large=too_large,
        whole_ledgers=whole_ledgers,
    )
    contents = {ledger: tally.content for ledger, tally in tallies.items()}
    buckets = tuple(
        Bucket.of(
            subscriber,
            planned,
            PositionBitmap.from_bitmaps(dict(_between(tallies, planned.first, planned.last))),
            limits,
            contents,
        )
        for planned in plan.buckets
    )
    return TrackerPlan(subscriber, plan, buckets, tallies, unread)


def _between(tallies: Mapping[int, LedgerTally], first: Position, last: Position) -> Iterator[tuple[int, BitMap]]:
    """Yield the accepted positions from the first to the last, both included, by ledger."""
    for ledger, tally in tallies.items():
        if not first.ledger_id <= ledger <= last.ledger_id:
            continue
        low = first.entry_id if ledger == first.ledger_id else 0
        high = last.entry_id if ledger == last.ledger_id else ENTRY_ID_MAX
        bits = tally.bits.copy()
        bits.remove_range(0, low)
        bits.remove_range(high + 1, ENTRY_ID_MAX + 1)
        yield ledger, bits
