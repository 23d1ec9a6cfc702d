"""One tracker as its dispatcher uses it: a view that reads, and a session that owns it for one epoch."""

import math
from collections.abc import Iterator
from types import TracebackType
from typing import Self

from delayed_tracker.v1 import tracker_pb2 as pb
from tracker.client import convert
from tracker.client.add_buffer import AddBuffer
from tracker.client.answers import (
    AckAnswer,
    AddAnswer,
    AddResult,
    Bucket,
    DueMessages,
    MarkDeleteAnswer,
    NackAnswer,
    NextDelivery,
    OpenAnswer,
    Position,
    TrackerStats,
)
from tracker.client.calls import Calls
from tracker.client.columns import (
    ENTRY_ID_MAX,
    INT63_MAX,
    IntColumn,
    offsets,
    pack,
    pack_positions,
    require_equal_lengths,
    set_column,
    slice_packed,
)
from tracker.client.errors import BatchTooLarge
from tracker.client.lease import Lease
from tracker.core.errors import InvalidInput


class TrackerView:
    """Reads one tracker without owning it; the tracker must be open on the service.

    Every method raises TrackerCallError: TrackerNotOpen if nobody opened the tracker, Unavailable while it recovers.
    """

    def __init__(self, calls: Calls, topic: str, subscription: str) -> None:
        self._calls = calls
        self._ref = convert.tracker_ref(topic, subscription)
        self._batch_max = calls.settings.batch_max

    @property
    def topic(self) -> str:
        """The full topic name."""
        return self._ref.topic

    @property
    def subscription(self) -> str:
        """The subscription's name as users write it."""
        return self._ref.subscription

    async def contains(self, ledger_ids: IntColumn, entry_ids: IntColumn) -> list[bool]:
        """Which positions are tracked, leased ones included; one answer a position, in order."""
        ledgers, entries = pack_positions(ledger_ids, entry_ids)
        tracked = [False] * len(ledger_ids)
        for first, count in self._batches(len(ledger_ids)):
            request = pb.ContainsMessagesRequest(tracker=self._ref)
            set_column(request, "ledger_ids", slice_packed(ledgers, first, count))
            set_column(request, "entry_ids", slice_packed(entries, first, count))
            answer = await self._calls.call("ContainsMessages", request, pb.ContainsMessagesResponse)
            for offset in answer.tracked_offsets:
                tracked[first + offset] = True
        return tracked

    async def next_delivery_time(self) -> NextDelivery:
        """When a poll would next succeed."""
        request = pb.NextDeliveryTimeRequest(tracker=self._ref)
        answer = await self._calls.call("NextDeliveryTime", request, pb.NextDeliveryTimeResponse)
        return NextDelivery(
            next_delivery_at_ms=answer.next_delivery_at_ms if answer.HasField("next_delivery_at_ms") else None,
            server_time_ms=answer.server_time_ms,
        )

    async def stats(self) -> TrackerStats:
        """Sizes and counters since the tracker was loaded."""
        request = pb.GetTrackerStatsRequest(tracker=self._ref)
        return convert.tracker_stats(await self._calls.call("GetTrackerStats", request, pb.GetTrackerStatsResponse))

    async def buckets(self) -> tuple[Bucket, ...]:
        """The tracker's buckets, ascending by first position."""
        request = pb.ListBucketsRequest(tracker=self._ref)
        answer = await self._calls.call("ListBuckets", request, pb.ListBucketsResponse)
        return tuple(convert.bucket(row) for row in answer.buckets)

    def _batches(self, count: int) -> Iterator[tuple[int, int]]:
        """(first, count) of each call that ``count`` positions take; always at least one."""
        for first in range(0, max(count, 1), self._batch_max):
            yield first, min(self._batch_max, count - first)


class TrackerSession(TrackerView):
    """Owns one tracker for one epoch; made by ``DelayedTrackerClient.open_tracker``.

    Whoever opens the tracker next fences this session: its calls then raise Fenced. As a context it leaves the tracker
    loaded and sends what is buffered; :meth:`close` unloads it.
    """

    def __init__(self, calls: Calls, topic: str, subscription: str, opened: OpenAnswer) -> None:
        super().__init__(calls, topic, subscription)
        settings = calls.settings
        self.opened = opened
        self._epoch = opened.epoch
        self._buffer = AddBuffer(
            self.add_columns,
            flush_count=settings.flush_count,
            flush_delay_s=settings.flush_delay_s,
            buffer_max=settings.buffer_max,
        )

    @property
    def epoch(self) -> int:
        """What every call of this session carries; :meth:`clear` raises it."""
        return self._epoch

    async def add(self, deliver_at_ms: int, ledger_id: int, entry_id: int) -> AddResult:
        """Offer one position; it travels with others in a batch, and its own outcome is the answer.

        Args:
            deliver_at_ms: wall-clock deadline, 0 to 2^63-1.
            ledger_id: 0 to 2^63-1.
            entry_id: 0 to 2^32-1.
        Raises:
            InvalidInput: a value out of range; nothing was buffered.
            TrackerCallError: its batch failed; unless the answer was lost, nothing of it was applied.
        """
        pack("deliver_at_ms", [deliver_at_ms])
        pack_positions([ledger_id], [entry_id])
        return await self._buffer.add(deliver_at_ms, ledger_id, entry_id)

    async def add_columns(self, deliver_at_ms: IntColumn, ledger_ids: IntColumn, entry_ids: IntColumn) -> AddAnswer:
        """Offer many positions as parallel columns, in order.

        More than fit into one call travel in several, each applied in one step. If a later one fails, the earlier ones
        stay applied; offering all of it again is harmless.

        Raises:
            InvalidInput: unequal lengths or values out of range, by column and offset; nothing was sent.
        """
        require_equal_lengths(deliver_at_ms=deliver_at_ms, ledger_ids=ledger_ids, entry_ids=entry_ids)
        columns = {
            "deliver_at_ms": pack("deliver_at_ms", deliver_at_ms, maximum=INT63_MAX),
            "ledger_ids": pack("ledger_ids", ledger_ids, maximum=INT63_MAX),
            "entry_ids": pack("entry_ids", entry_ids, maximum=ENTRY_ID_MAX),
        }
        total = len(deliver_at_ms)
        parts: list[AddAnswer] = []
        first = 0
        while first < total or not parts:
            count = min(self._batch_max, total - first)
            request = pb.AddMessagesRequest(tracker=self._ref, epoch=self._epoch)
            for field, packed in columns.items():
                set_column(request, field, slice_packed(packed, first, count))
            try:
                answer = await self._calls.call("AddMessages", request, pb.AddMessagesResponse)
            except BatchTooLarge as error:
                if not self._lower_batch_max(error, count):
                    raise
                continue
            parts.append(
                AddAnswer(
                    added_count=answer.added_count,
                    due_offsets=offsets(answer.due_offsets, first),
                    duplicate_offsets=offsets(answer.duplicate_offsets, first),
                    beyond_max_delay_offsets=offsets(answer.beyond_max_delay_offsets, first),
                    below_mark_delete_offsets=offsets(answer.below_mark_delete_offsets, first),
                )
            )
            first += count
        return parts[0] if len(parts) == 1 else _joined(parts)

    async def poll(self, max_messages: int, *, wait_ms: int = 0, lease_ms: int | None = None) -> Lease:
        """Lease what is due, waiting up to ``wait_ms`` for the first of it.

        Args:
            max_messages: 1 to the server's maximum.
            wait_ms: how long to wait for the first due position; the server caps it.
            lease_ms: how long to hold them; None is the server's default.
        Returns: a lease, of nothing if nothing became due.
        """
        request = self._poll_request(max_messages, wait_ms)
        if lease_ms is not None:
            request.lease_ms = _uint32("lease_ms", lease_ms, minimum=1)
        answer = await self._poll(request)
        return Lease(
            self,
            lease_id=answer.lease_id,
            expires_at_ms=answer.lease_expires_at_ms,
            messages=convert.due_messages(answer),
        )

    async def poll_hand_off(self, max_messages: int, *, wait_ms: int = 0) -> DueMessages:
        """Take what is due without a lease: if the answer is lost, so are its positions until the next replay."""
        request = self._poll_request(max_messages, wait_ms)
        request.hand_off = True
        return convert.due_messages(await self._poll(request))

    async def ack(self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn) -> AckAnswer:
        """Acknowledge leased positions: they are no longer tracked."""
        ledgers, entries = pack_positions(ledger_ids, entry_ids)
        acked_count = 0
        stale: tuple[int, ...] = ()
        unknown: tuple[int, ...] = ()
        for first, count in self._batches(len(ledger_ids)):
            request = pb.AckMessagesRequest(tracker=self._ref, epoch=self._epoch, lease_id=lease_id)
            set_column(request, "ledger_ids", slice_packed(ledgers, first, count))
            set_column(request, "entry_ids", slice_packed(entries, first, count))
            answer = await self._calls.call("AckMessages", request, pb.AckMessagesResponse)
            acked_count += answer.acked_count
            stale += offsets(answer.stale_offsets, first)
            unknown += offsets(answer.unknown_offsets, first)
        return AckAnswer(acked_count, stale, unknown)

    async def nack(
        self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn, *, deliver_at_ms: int | None = None
    ) -> NackAnswer:
        """Give leased positions back, at once or for a new deadline."""
        ledgers, entries = pack_positions(ledger_ids, entry_ids)
        if deliver_at_ms is not None:
            pack("deliver_at_ms", [deliver_at_ms])
        returned_count = 0
        stale: tuple[int, ...] = ()
        unknown: tuple[int, ...] = ()
        for first, count in self._batches(len(ledger_ids)):
            request = pb.NackMessagesRequest(
                tracker=self._ref, epoch=self._epoch, lease_id=lease_id, deliver_at_ms=deliver_at_ms
            )
            set_column(request, "ledger_ids", slice_packed(ledgers, first, count))
            set_column(request, "entry_ids", slice_packed(entries, first, count))
            answer = await self._calls.call("NackMessages", request, pb.NackMessagesResponse)
            returned_count += answer.returned_count
            stale += offsets(answer.stale_offsets, first)
            unknown += offsets(answer.unknown_offsets, first)
        return NackAnswer(returned_count, stale, unknown)

    async def advance_mark_delete(self, ledger_id: int, entry_id: int) -> MarkDeleteAnswer:
        """Tell the tracker that everything up to and including a position is acknowledged."""
        request = pb.AdvanceMarkDeleteRequest(
            tracker=self._ref, epoch=self._epoch, mark_delete=position_message(Position(ledger_id, entry_id))
        )
        answer = await self._calls.call("AdvanceMarkDelete", request, pb.AdvanceMarkDeleteResponse)
        return MarkDeleteAnswer(convert.position(answer.mark_delete), answer.trimmed_count)

    async def clear(self) -> int:
        """Forget every position, durably; returns how many. The session goes on under a new epoch."""
        request = pb.ClearMessagesRequest(tracker=self._ref, epoch=self._epoch)
        answer = await self._calls.call("ClearMessages", request, pb.ClearMessagesResponse)
        self._epoch = answer.epoch
        return answer.cleared_count

    async def close(self) -> None:
        """Send what is buffered, then unload the tracker: leases are void, snapshots stay.

        What is not in a snapshot is covered by the next dispatcher's replay.
        """
        await self.leave()
        request = pb.CloseTrackerRequest(tracker=self._ref, epoch=self._epoch)
        await self._calls.call("CloseTracker", request, pb.CloseTrackerResponse)

    async def leave(self) -> None:
        """Send what is buffered and refuse further single adds; the tracker stays loaded on the service."""
        await self._buffer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.leave()

    def _poll_request(self, max_messages: int, wait_ms: int) -> pb.PollScheduledMessagesRequest:
        return pb.PollScheduledMessagesRequest(
            tracker=self._ref,
            epoch=self._epoch,
            max_messages=_uint32("max_messages", max_messages, minimum=1),
            wait_ms=_uint32("wait_ms", wait_ms, minimum=0),
        )

    async def _poll(self, request: pb.PollScheduledMessagesRequest) -> pb.PollScheduledMessagesResponse:
        timeout_s = self._calls.settings.call_timeout_s + request.wait_ms / 1_000
        return await self._calls.call(
            "PollScheduledMessages", request, pb.PollScheduledMessagesResponse, timeout_s=timeout_s
        )

    def _lower_batch_max(self, error: BatchTooLarge, sent_count: int) -> bool:
        """Take over the limit that the service names, or halve; False if no smaller batch is possible."""
        named = error.metadata.get("limit", "")
        limit = int(named) if named.isdecimal() else math.ceil(sent_count / 2)
        if not 1 <= limit < sent_count:
            return False
        self._batch_max = limit
        return True


def position_message(position: Position) -> pb.Position:
    """A mark-delete position for the wire: entry -1 is allowed, and ledger -1 with it.

    Raises:
        InvalidInput: below -1 or above 2^63-1.
    """
    for field, value in zip(("mark_delete.ledger_id", "mark_delete.entry_id"), position, strict=True):
        if not -1 <= value <= INT63_MAX:
            raise InvalidInput(field, value, f"give an integer from -1 to {INT63_MAX}")
    return pb.Position(ledger_id=position[0], entry_id=position[1])


def _uint32(field: str, value: int, *, minimum: int) -> int:
    if not minimum <= value <= ENTRY_ID_MAX:
        raise InvalidInput(field, value, f"give an integer from {minimum} to {ENTRY_ID_MAX}")
    return value


def _joined(parts: list[AddAnswer]) -> AddAnswer:
    return AddAnswer(
        added_count=sum(part.added_count for part in parts),
        due_offsets=tuple(offset for part in parts for offset in part.due_offsets),
        duplicate_offsets=tuple(offset for part in parts for offset in part.duplicate_offsets),
        beyond_max_delay_offsets=tuple(offset for part in parts for offset in part.beyond_max_delay_offsets),
        below_mark_delete_offsets=tuple(offset for part in parts for offset in part.below_mark_delete_offsets),
    )
