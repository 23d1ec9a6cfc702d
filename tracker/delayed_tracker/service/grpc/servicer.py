"""The calls of the tracker's API that change state: validate, convert, call the host, convert back.

``methods.py`` turns errors into statuses.
"""
# ruff: noqa: N802  # methods are named as the API names them

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from delayed_tracker.core.values.columns import BEFORE_ALL
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.errors import TrackerKey
from delayed_tracker.service.grpc.import_stream import ImportStream
from delayed_tracker.service.grpc.inspection_servicer import Context, InspectionServicer
from delayed_tracker.service.grpc.wire import (
    after,
    from_indexes,
    from_position,
    require_epoch,
    require_owner_name,
    to_indexes,
    to_key,
    to_mark_delete,
    to_offered_through,
    to_offsets,
    to_positions,
)
from delayed_tracker.service.grpc.wire_acks import from_acked, to_lease_acks
from delayed_tracker.service.operations.clearing import clear_tracker, delete_tracker
from delayed_tracker.service.operations.cursor import move_cursor
from delayed_tracker.service.operations.importing import SnapshotImport
from delayed_tracker.service.security.caller import current_caller, handed_out, opening
from delayed_tracker.service.trackers.host import TrackerHost
from delayed_tracker.v1 import tracker_pb2
from delayed_tracker.wire.column_fields import Columned
from delayed_tracker.wire.message_columns import POLLED_COLUMNS

ImportRequests: TypeAlias = AsyncIterator[tracker_pb2.ImportSnapshotsRequest]
AddRequests: TypeAlias = AsyncIterator[Columned[tracker_pb2.AddMessagesRequest]]

STREAM_UNANSWERED_MAX: Final = 8
"""Requests of a stream that are added and not answered, at most. No further one is read meanwhile."""
STREAM_ANSWER_BYTES_MAX: Final = 4_096
"""After a request with a longer answer, none is read until that is sent."""


@dataclass(frozen=True, slots=True)
class _AddedRequest:
    """Answer to a request of a stream, which is sent when the change with this number is durable."""

    host: TrackerHost
    number: int
    answer: tracker_pb2.AddMessagesResponse


class TrackerServicer(InspectionServicer):
    """The methods of ``DelayedDeliveryTrackerService`` over a registry, with the limits and the clock of that registry.

    ``methods.py`` serves them. A request with columns is passed together with its columns, and errors are raised.
    """

    async def OpenTracker(
        self, request: tracker_pb2.OpenTrackerRequest, _context: Context
    ) -> tracker_pb2.OpenTrackerResponse:
        """See tracker.proto."""
        key = to_key(request.tracker)
        with opening(key):
            opened = await self._registry.open(
                key,
                owner=require_owner_name(request.owner),
                mark_delete=to_mark_delete(request.mark_delete) if request.HasField("mark_delete") else None,
            )
            self._note_owner(key)
        response = tracker_pb2.OpenTrackerResponse(
            epoch=opened.epoch,
            recovered_count=opened.recovered_count,
            bucket_count=opened.bucket_count,
            add_log_missing=opened.add_log_missing,
        )
        if (offered := max(opened.mark_delete, opened.offered_through)) != BEFORE_ALL:
            response.replay_from.CopyFrom(from_position(after(offered)))
        return response

    def _note_owner(self, key: TrackerKey) -> None:
        """Note the principal that owns a tracker from now on, and a takeover in the audit log."""
        caller, host = current_caller(), self._registry.find_host(key)
        if caller is None or host is None:
            return
        role = caller.principal.role
        previous = self._registry.principals.pass_to(host, role)
        if previous not in {"", role}:
            caller.guard.audit.taken_over(
                peer=caller.peer(), principal=role, previous=previous, topic=key.topic, subscription=key.subscription
            )

    async def CloseTracker(
        self, request: tracker_pb2.CloseTrackerRequest, _context: Context
    ) -> tracker_pb2.CloseTrackerResponse:
        """See tracker.proto."""
        await self._registry.close_tracker(to_key(request.tracker), require_epoch(request.epoch))
        return tracker_pb2.CloseTrackerResponse()

    async def AddMessages(
        self, columned: Columned[tracker_pb2.AddMessagesRequest], _context: Context
    ) -> tracker_pb2.AddMessagesResponse:
        """See tracker.proto."""
        host = await self._loaded_host(columned.head)
        answer = self._added(host, columned.head, columned.columns)
        await host.until_durable()
        return answer

    def _added(
        self, host: TrackerHost, request: tracker_pb2.AddMessagesRequest, columns: Sequence[bytes]
    ) -> tracker_pb2.AddMessagesResponse:
        """Add the messages of a request and return its answer, which is sent when the messages are durable."""
        epoch = require_epoch(request.epoch)
        host.require_owner(epoch)
        claim = to_offered_through(request.offered_through) if request.HasField("offered_through") else None
        outcome = host.add(epoch, to_indexes(columns, batch_max=self._limits.batch_max), offered_through=claim)
        answer = tracker_pb2.AddMessagesResponse(
            added_count=outcome.added_count,
            due_offsets=to_offsets(outcome.due),
            duplicate_offsets=to_offsets(outcome.duplicate),
            beyond_max_delay_offsets=to_offsets(outcome.beyond_max_delay),
            below_mark_delete_offsets=to_offsets(outcome.below_mark_delete),
        )
        if (in_force := host.offered_through) != BEFORE_ALL:
            answer.offered_through.CopyFrom(from_position(in_force))
        return answer

    async def PollScheduledMessages(self, request: tracker_pb2.PollScheduledMessagesRequest, context: Context) -> bytes:
        """See tracker.proto. The answer is already encoded."""
        host = await self._loaded_host(request)
        limits = self._limits
        if not 1 <= request.max_messages <= limits.poll_messages_max:
            raise InvalidInput("max_messages", request.max_messages, f"give 1 to {limits.poll_messages_max}")
        epoch, lease_ms = require_epoch(request.epoch), self._lease_ms(request)
        shares = _shares(request)

        def abandoned() -> bool:
            self._registry.calls.answers.require_room()  # a poll whose answer has no room must take no messages
            return context.cancelled() or context.done()

        delivery = await host.poll(
            epoch,
            max_count=request.max_messages,
            wait_ms=min(request.wait_ms, limits.poll_wait_max_ms),
            lease_ms=lease_ms,
            abandoned=abandoned,
        )
        # No await from here on: all messages taken must be in the answer.
        handed_out(len(delivery.indexes))
        deliveries = host.divide(epoch, delivery, shares)
        response = tracker_pb2.PollScheduledMessagesResponse(
            lease_id=delivery.lease_id,
            lease_expires_at_ms=delivery.expires_at_ms,
            server_time_ms=host.now_ms(),
            replay_required=host.replay_required,
            pause_reading=host.pause_reading,
        )
        if (next_ms := host.next_delivery_ms()) is not None:
            response.next_delivery_at_ms = next_ms
        if len(shares) > 1:
            response.shares.extend(
                tracker_pb2.LeasedShare(lease_id=each.lease_id, message_count=len(each.indexes))
                for each in deliveries
                if len(each.indexes)
            )
        return POLLED_COLUMNS.encoded(response, from_indexes(delivery.indexes))

    def _lease_ms(self, request: tracker_pb2.PollScheduledMessagesRequest) -> int:
        given = request.HasField("lease_ms")
        if request.hand_off:
            if given:
                raise InvalidInput("lease_ms", request.lease_ms, "leave it unset when hand_off is set")
            return 0
        if not given:
            return self._limits.lease_default_ms
        if not 1 <= request.lease_ms <= self._limits.lease_max_ms:
            default = f"or leave it out for the service's {self._limits.lease_default_ms}"
            raise InvalidInput("lease_ms", request.lease_ms, f"give 1 to {self._limits.lease_max_ms}, {default}")
        return request.lease_ms

    async def AckMessages(
        self, columned: Columned[tracker_pb2.AckMessagesRequest], _context: Context
    ) -> tracker_pb2.AckMessagesResponse:
        """See tracker.proto."""
        request = columned.head
        host = await self._loaded_host(request)
        positions = to_positions(columned.columns, batch_max=self._limits.batch_max)
        epoch = require_epoch(request.epoch)
        await host.wait_for_window()
        if request.leases:
            acks = to_lease_acks(request, positions, positions_max=self._limits.batch_max)
            return from_acked(acks, host.ack_leases(epoch, acks))
        outcome = host.ack(epoch, request.lease_id, positions)
        return tracker_pb2.AckMessagesResponse(
            acked_count=outcome.changed_count,
            stale_offsets=to_offsets(outcome.stale),
            unknown_offsets=to_offsets(outcome.unknown),
        )

    async def NackMessages(
        self, columned: Columned[tracker_pb2.NackMessagesRequest], _context: Context
    ) -> tracker_pb2.NackMessagesResponse:
        """See tracker.proto."""
        request = columned.head
        host = await self._loaded_host(request)
        positions = to_positions(columned.columns, batch_max=self._limits.batch_max)
        outcome = host.nack(
            require_epoch(request.epoch),
            request.lease_id,
            positions,
            deliver_at_ms=request.deliver_at_ms if request.HasField("deliver_at_ms") else None,
        )
        if request.HasField("deliver_at_ms"):
            await host.until_durable()
        return tracker_pb2.NackMessagesResponse(
            returned_count=outcome.changed_count,
            stale_offsets=to_offsets(outcome.stale),
            unknown_offsets=to_offsets(outcome.unknown),
        )

    async def AdvanceMarkDelete(
        self, request: tracker_pb2.AdvanceMarkDeleteRequest, _context: Context
    ) -> tracker_pb2.AdvanceMarkDeleteResponse:
        """See tracker.proto."""
        host = await self._loaded_host(request)
        if not request.HasField("mark_delete"):
            raise InvalidInput("mark_delete", None, "give the cursor's mark-delete position")
        outcome = host.advance_mark_delete(require_epoch(request.epoch), to_mark_delete(request.mark_delete))
        return tracker_pb2.AdvanceMarkDeleteResponse(
            mark_delete=from_position(outcome.mark_delete), trimmed_count=outcome.trimmed_count
        )

    async def ClearMessages(
        self, request: tracker_pb2.ClearMessagesRequest, _context: Context
    ) -> tracker_pb2.ClearMessagesResponse:
        """See tracker.proto."""
        key = to_key(request.tracker)
        cleared = await clear_tracker(self._registry, key, require_epoch(request.epoch))
        self._registry.events.cleared(key, cleared)
        return tracker_pb2.ClearMessagesResponse(epoch=cleared.epoch, cleared_count=cleared.cleared_count)

    async def DeleteTracker(
        self, request: tracker_pb2.DeleteTrackerRequest, _context: Context
    ) -> tracker_pb2.DeleteTrackerResponse:
        """See tracker.proto."""
        epoch = require_epoch(request.epoch) if request.HasField("epoch") else None
        key = to_key(request.tracker)
        deleted = await delete_tracker(self._registry, key, epoch)
        self._registry.events.deleted(key, deleted)
        return tracker_pb2.DeleteTrackerResponse(deleted_count=deleted.position_count)

    async def AddMessagesStream(self, requests: AddRequests, context: Context) -> None:
        """See tracker.proto. A few requests are read ahead of the answers, so that they share commits of the add log."""
        room = asyncio.Semaphore(STREAM_UNANSWERED_MAX - 1)
        added: asyncio.Queue[_AddedRequest | None] = asyncio.Queue()
        reading = asyncio.create_task(self._add_all(requests, room, added))
        try:
            while (each := await added.get()) is not None:
                await each.host.until_durable(each.number)
                await context.write(tracker_pb2.AddMessagesStreamResponse(added=each.answer))
                room.release()
                added.task_done()
            await reading
        finally:
            reading.cancel()
            await asyncio.wait([reading])

    async def _add_all(
        self, requests: AddRequests, room: asyncio.Semaphore, added: "asyncio.Queue[_AddedRequest | None]"
    ) -> None:
        """Add the messages of each request of a stream. ``added`` gets each of them, and None at the end or an error."""
        first: tracker_pb2.AddMessagesRequest | None = None
        try:
            async for columned in self._registry.calls.requests_until_stopping(requests):
                first = first or columned.head
                request = _completed(columned.head, first)
                await self._registry.calls.iteration_budget.take(columned.row_count)
                await self._until_room(request, columned.columns)
                host = await self._loaded_host(request)
                answer = self._added(host, request, columned.columns)
                added.put_nowait(_AddedRequest(host, host.waited_number, answer))
                # The next request is read only when there may be room for it, and for its answer.
                await self._until_room(first)
                await room.acquire()
                if answer.ByteSize() > STREAM_ANSWER_BYTES_MAX:
                    await added.join()
        finally:
            added.put_nowait(None)

    async def _until_room(
        self, request: tracker_pb2.AddMessagesRequest, columns: Sequence[bytes] | None = None
    ) -> None:
        """Wait until the indexes of a stream's request can be added, or, without columns, until there is room for any.

        The caller must add without an await in between.

        Raises: the errors of adding, except Overloaded.
        """
        indexes = None
        while True:
            host = await self._loaded_host(request)
            epoch = require_epoch(request.epoch)
            host.require_owner(epoch)
            if host.unstored.has_room:
                return
            if columns is not None:
                if indexes is None:
                    indexes = to_indexes(columns, batch_max=self._limits.batch_max)
                if host.has_room_for(epoch, indexes):
                    return
            await host.unstored.wait_for_room()

    async def ExtendLease(
        self, columned: Columned[tracker_pb2.ExtendLeaseRequest], _context: Context
    ) -> tracker_pb2.ExtendLeaseResponse:
        """See tracker.proto."""
        request = columned.head
        host = await self._loaded_host(request)
        if not 1 <= request.lease_ms <= self._limits.lease_max_ms:
            raise InvalidInput("lease_ms", request.lease_ms, f"give 1 to {self._limits.lease_max_ms}")
        named = any(columned.columns)
        positions = to_positions(columned.columns, batch_max=self._limits.batch_max)
        outcome = host.extend(
            require_epoch(request.epoch), request.lease_id, positions if named else None, lease_ms=request.lease_ms
        )
        return tracker_pb2.ExtendLeaseResponse(
            extended_count=outcome.extended_count,
            lease_expires_at_ms=outcome.expires_at_ms,
            stale_offsets=to_offsets(outcome.stale),
            unknown_offsets=to_offsets(outcome.unknown),
        )

    async def CancelMessages(
        self, columned: Columned[tracker_pb2.CancelMessagesRequest], _context: Context
    ) -> tracker_pb2.CancelMessagesResponse:
        """See tracker.proto."""
        request = columned.head
        host = await self._loaded_host(request)
        positions = to_positions(columned.columns, batch_max=self._limits.batch_max)
        outcome = host.cancel(require_epoch(request.epoch), positions)
        await host.until_durable()
        return tracker_pb2.CancelMessagesResponse(
            cancelled_count=outcome.cancelled_count,
            leased_offsets=to_offsets(outcome.leased),
            unknown_offsets=to_offsets(outcome.unknown),
        )

    async def RescheduleMessages(
        self, columned: Columned[tracker_pb2.RescheduleMessagesRequest], _context: Context
    ) -> tracker_pb2.RescheduleMessagesResponse:
        """See tracker.proto."""
        request = columned.head
        host = await self._loaded_host(request)
        indexes = to_indexes(columned.columns, batch_max=self._limits.batch_max)
        outcome = host.reschedule(require_epoch(request.epoch), indexes)
        await host.until_durable()
        return tracker_pb2.RescheduleMessagesResponse(
            rescheduled_count=outcome.rescheduled_count,
            due_offsets=to_offsets(outcome.due),
            duplicate_offsets=to_offsets(outcome.duplicate),
            leased_offsets=to_offsets(outcome.leased),
            unknown_offsets=to_offsets(outcome.unknown),
            beyond_max_delay_offsets=to_offsets(outcome.beyond_max_delay),
        )

    async def ResetCursor(
        self, request: tracker_pb2.ResetCursorRequest, _context: Context
    ) -> tracker_pb2.ResetCursorResponse:
        """See tracker.proto."""
        mark_delete = to_mark_delete(request.mark_delete) if request.HasField("mark_delete") else BEFORE_ALL
        key = to_key(request.tracker)
        epoch = require_epoch(request.epoch)
        if request.keep_index:
            reset = await move_cursor(self._registry, key, epoch, mark_delete)
            self._registry.events.cursor_moved(key, reset, mark_delete)
        else:
            reset = await clear_tracker(self._registry, key, epoch, reset_to=mark_delete)
            self._registry.events.cleared(key, reset)
        response = tracker_pb2.ResetCursorResponse(epoch=reset.epoch, cleared_count=reset.cleared_count)
        if mark_delete != BEFORE_ALL:
            response.replay_from.CopyFrom(from_position(after(mark_delete)))
        return response

    async def SealBucket(
        self, request: tracker_pb2.SealBucketRequest, _context: Context
    ) -> tracker_pb2.SealBucketResponse:
        """See tracker.proto."""
        host = await self._loaded_host(request)
        return tracker_pb2.SealBucketResponse(sealed_count=host.seal(require_epoch(request.epoch)))

    async def ImportSnapshots(self, requests: ImportRequests, _context: Context) -> tracker_pb2.ImportSnapshotsResponse:
        """See tracker.proto."""
        stream = ImportStream(self._registry.calls.requests_until_stopping(requests))
        key, terms = await stream.terms()
        with opening(key):
            adopted = await SnapshotImport(self._registry, key, terms).run(stream.buckets())
            self._note_owner(key)
        response = tracker_pb2.ImportSnapshotsResponse(
            epoch=adopted.epoch,
            bucket_count=adopted.bucket_count,
            tracked_count=adopted.tracked_count,
            replaced_count=adopted.replaced_count,
        )
        if (offered := max(adopted.mark_delete, adopted.offered_through)) != BEFORE_ALL:
            response.replay_from.CopyFrom(from_position(after(offered)))
        return response


def _completed(
    request: tracker_pb2.AddMessagesRequest, first: tracker_pb2.AddMessagesRequest
) -> tracker_pb2.AddMessagesRequest:
    """Return a stream's request, completed with the tracker and the epoch of its first request.

    Raises:
        InvalidInput: the request names another tracker or epoch.
    """
    if not request.HasField("tracker"):
        request.tracker.CopyFrom(first.tracker)
    elif request.tracker != first.tracker:
        raise InvalidInput("add.tracker", request.tracker.subscription[:64], "open a stream for each tracker")
    if request.epoch not in (0, first.epoch):
        raise InvalidInput("add.epoch", request.epoch, f"leave it out or repeat {first.epoch}")
    request.epoch = first.epoch
    return request


def _shares(request: tracker_pb2.PollScheduledMessagesRequest) -> Sequence[int]:
    """Return the maximum of each poll that the call stands for; there is at least one."""
    shares = request.share_messages
    if not shares:
        return (request.max_messages,)
    if request.hand_off:
        raise InvalidInput("share_messages", len(shares), "leave it unset when hand_off is set")
    too_small = [offset for offset, share in enumerate(shares) if share < 1]
    if too_small:
        raise InvalidInput("share_messages", shares[too_small[0]], "give 1 or more for each share", offsets=too_small)
    if sum(shares) != request.max_messages:
        remedy = f"give shares that make up max_messages ({request.max_messages})"
        raise InvalidInput("share_messages", sum(shares), remedy)
    return shares
