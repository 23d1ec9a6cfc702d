"""Exchanges of the calls that read one tracker. They neither own the tracker nor change it."""

from collections.abc import Sequence

from delayed_tracker.client.model import convert
from delayed_tracker.client.model.answers import EntryRange, NextDelivery, Position
from delayed_tracker.client.model.bounds import UINT32_MAX, bounded, instant_ms, position_message
from delayed_tracker.client.model.convert import all_offsets
from delayed_tracker.client.model.exchange import Call, Exchange, ask
from delayed_tracker.client.model.reports import (
    Bucket,
    DeliveryHistogram,
    Explanation,
    PeekedMessages,
    SnapshotReport,
    TrackerStats,
)
from delayed_tracker.client.model.settings import ClientSettings
from delayed_tracker.client.queues.batching import Batches
from delayed_tracker.client.queues.entry_ranges import check_ranges, put_together, range_batches
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.columns import INT63_MAX, IntColumn, pack_positions
from delayed_tracker.wire.message_columns import CONTAINS_COLUMNS, PEEKED_COLUMNS


class ViewRules:
    """Reads of one tracker, as exchanges."""

    def __init__(self, settings: ClientSettings, topic: str, subscription: str) -> None:
        self.settings = settings
        self.tracker = convert.tracker_ref(topic, subscription)
        self._batches = Batches(settings.batch_max)

    def contains(self, ledger_ids: IntColumn, entry_ids: IntColumn) -> Exchange[list[bool]]:
        """Call ContainsMessages; return one value for each position."""
        ledgers, entries = pack_positions(ledger_ids, entry_ids)
        parts = yield from self._batches.send_in_batches(
            "ContainsMessages",
            pb.ContainsMessagesRequest(tracker=self.tracker),
            pb.ContainsMessagesResponse,
            fields=CONTAINS_COLUMNS,
            columns=(ledgers, entries),
            total=len(ledger_ids),
        )
        tracked = [False] * len(ledger_ids)
        for offset in all_offsets(parts, "tracked_offsets"):
            tracked[offset] = True
        return tracked

    def filter_entries(self, ranges: Sequence[EntryRange]) -> Exchange[tuple[EntryRange, ...]]:
        """Call FilterEntries, as often as the ranges need."""
        check_ranges(ranges)
        untracked: list[EntryRange] = []
        for batch in range_batches(ranges):
            request = pb.FilterEntriesRequest(tracker=self.tracker)
            for ledger_id, first, last in batch.ranges:
                request.ranges.add(ledger_id=ledger_id, first_entry_id=first, last_entry_id=last)
            answer = yield from ask("FilterEntries", request, pb.FilterEntriesResponse)
            found = (EntryRange(row.ledger_id, row.first_entry_id, row.last_entry_id) for row in answer.ranges)
            put_together(untracked, found, is_continuation=batch.is_continuation)
        return tuple(untracked)

    def membership(self) -> Call:
        """Return the call that streams the membership, of whichever epoch."""
        return Call("StreamMembership", pb.StreamMembershipRequest(tracker=self.tracker), pb.StreamMembershipResponse)

    def next_delivery_time(self) -> Exchange[NextDelivery]:
        """Call NextDeliveryTime."""
        request = pb.NextDeliveryTimeRequest(tracker=self.tracker)
        answer = yield from ask("NextDeliveryTime", request, pb.NextDeliveryTimeResponse)
        return NextDelivery(
            next_delivery_at_ms=answer.next_delivery_at_ms if answer.HasField("next_delivery_at_ms") else None,
            server_time_ms=answer.server_time_ms,
        )

    def stats(self) -> Exchange[TrackerStats]:
        """Call GetTrackerStats."""
        request = pb.GetTrackerStatsRequest(tracker=self.tracker)
        return convert.tracker_stats((yield from ask("GetTrackerStats", request, pb.GetTrackerStatsResponse)))

    def buckets(self) -> Exchange[tuple[Bucket, ...]]:
        """Call ListBuckets."""
        request = pb.ListBucketsRequest(tracker=self.tracker)
        answer = yield from ask("ListBuckets", request, pb.ListBucketsResponse)
        return tuple(convert.bucket(row) for row in answer.buckets)

    def peek(self, max_messages: int, *, from_ms: int, until_ms: int | None) -> Exchange[PeekedMessages]:
        """Call PeekMessages."""
        request = pb.PeekMessagesRequest(
            tracker=self.tracker,
            from_ms=instant_ms("from_ms", from_ms),
            until_ms=None if until_ms is None else instant_ms("until_ms", until_ms),
            max_messages=bounded("max_messages", max_messages, minimum=1, maximum=UINT32_MAX),
        )
        return convert.peeked_messages((yield from ask("PeekMessages", request, PEEKED_COLUMNS)))

    def explain(self, position: Position) -> Exchange[Explanation]:
        """Call ExplainMessage."""
        request = pb.ExplainMessageRequest(tracker=self.tracker, position=position_message(position))
        answer = yield from ask("ExplainMessage", request, pb.ExplainMessageResponse)
        return convert.explanation(position, answer)

    def histogram(self, *, from_ms: int, step_ms: int, bar_count: int) -> Exchange[DeliveryHistogram]:
        """Call DeliveryHistogram."""
        request = pb.DeliveryHistogramRequest(
            tracker=self.tracker,
            from_ms=instant_ms("from_ms", from_ms),
            step_ms=bounded("step_ms", step_ms, minimum=1, maximum=INT63_MAX),
            bar_count=bounded("bar_count", bar_count, minimum=1, maximum=UINT32_MAX),
        )
        answer = yield from ask("DeliveryHistogram", request, pb.DeliveryHistogramResponse)
        return DeliveryHistogram(
            from_ms=from_ms,
            step_ms=step_ms,
            before_count=answer.before_count,
            counts=tuple(answer.counts),
            after_count=answer.after_count,
            estimated_count=answer.estimated_count,
        )

    def verify(self) -> Exchange[SnapshotReport]:
        """Call VerifySnapshots; it may take long."""
        request = pb.VerifySnapshotsRequest(tracker=self.tracker)
        answer = yield from ask(
            "VerifySnapshots", request, pb.VerifySnapshotsResponse, timeout_s=self.settings.verify_timeout_s
        )
        return convert.snapshot_report(answer)
