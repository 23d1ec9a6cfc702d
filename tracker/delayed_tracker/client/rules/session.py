"""Exchanges of the calls of a tracker's owner. Every call carries the epoch that the open returned."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from delayed_tracker.client.errors import BatchTooLarge, InvalidArgument
from delayed_tracker.client.model import convert
from delayed_tracker.client.model.answers import (
    AckAnswer,
    AddAnswer,
    CancelAnswer,
    ExtendAnswer,
    MarkDeleteAnswer,
    NackAnswer,
    OpenAnswer,
    Position,
    RescheduleAnswer,
    ResetAnswer,
)
from delayed_tracker.client.model.bounds import UINT32_MAX, UINT64_MAX, bounded, claim_message, place_message
from delayed_tracker.client.model.convert import all_offsets
from delayed_tracker.client.model.exchange import Call, Exchange, ask
from delayed_tracker.client.model.settings import ClientSettings
from delayed_tracker.client.queues.ack_queue import AckOutcome, LeaseAck, divided
from delayed_tracker.client.queues.add_stream import AddStream
from delayed_tracker.client.queues.poll_queue import PollResult, PollTerms
from delayed_tracker.client.rules.view import ViewRules
from delayed_tracker.core.values.errors import DelayedTrackerError, InvalidInput
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.columns import IntColumn, pack, pack_indexes, pack_positions, require_equal_lengths
from delayed_tracker.wire.message_columns import (
    ACK_COLUMNS,
    ADD_COLUMNS,
    CANCEL_COLUMNS,
    EXTEND_COLUMNS,
    NACK_COLUMNS,
    POLLED_COLUMNS,
    RESCHEDULE_COLUMNS,
)


class Claim(NamedTuple):
    """Position up to which the dispatcher has offered everything, in one epoch."""

    position: Position
    epoch: int


class SessionRules(ViewRules):
    """Calls of one owner in one epoch, as exchanges."""

    def __init__(self, settings: ClientSettings, topic: str, subscription: str, opened: OpenAnswer) -> None:
        super().__init__(settings, topic, subscription)
        self.epoch = opened.epoch
        self._add_head = pb.AddMessagesRequest(tracker=self.tracker, epoch=opened.epoch)
        """Add without positions, the same for all adds of an epoch."""

    def membership(self) -> Call:
        """Return the call that streams the membership, of this epoch alone."""
        call = super().membership()
        request = pb.StreamMembershipRequest(tracker=self.tracker, epoch=self.epoch)
        return call._replace(request=request)

    def claim(self, offered_through: Position | None) -> Claim | None:
        """Return a claim in the present epoch; raises InvalidInput if no entry can have its position."""
        if offered_through is None:
            return None
        claim_message("offered_through", offered_through)
        return Claim(offered_through, self.epoch)

    def add_columns(self, deliver_at_ms: IntColumn, ledger_ids: IntColumn, entry_ids: IntColumn) -> Exchange[AddAnswer]:
        """Call AddMessages, as often as the columns need."""
        return (yield from self.add_packed(pack_indexes(deliver_at_ms, ledger_ids, entry_ids), len(deliver_at_ms)))

    def add_packed(
        self, columns: tuple[bytes, bytes, bytes], count: int, claim: Claim | None = None
    ) -> Exchange[AddAnswer]:
        """Call AddMessages for ``count`` positions in packed columns, as often as they need.

        The last call carries the claim: it may cover all of the positions. A claim of an earlier epoch is not sent.
        """
        head = self._add_head
        if head.epoch != self.epoch:
            head = self._add_head = pb.AddMessagesRequest(tracker=self.tracker, epoch=self.epoch)
        last = None
        if claim is not None and claim.epoch == self.epoch:
            last = pb.AddMessagesRequest(offered_through=claim_message("offered_through", claim.position))
            last.MergeFrom(head)
        parts = yield from self._batches.send_in_batches(
            "AddMessages",
            head,
            pb.AddMessagesResponse,
            fields=ADD_COLUMNS,
            columns=columns,
            total=count,
            last=last,
        )
        return convert.add_answer(parts)

    @property
    def batch_max(self) -> int:
        """Positions that a call may carry, as known from earlier answers."""
        return self._batches.batch_max

    def add_stream(self) -> AddStream:
        """Return the state of a new AddMessagesStream."""
        return AddStream(self.tracker, self.epoch, batch_max=self._batches.batch_max)

    def poll(self, shares: Sequence[int], *, wait_ms: int, terms: PollTerms) -> Exchange[list[PollResult]]:
        """Call PollScheduledMessages for one poll or several; a share is the most positions that a poll takes.

        Returns: the positions that each poll took, in their order.
        """
        epoch = self.epoch
        are_leased_apart = len(shares) > 1 and not terms.is_hand_off
        request = pb.PollScheduledMessagesRequest(
            tracker=self.tracker,
            epoch=epoch,
            max_messages=sum(shares),
            wait_ms=wait_ms,
            lease_ms=terms.lease_ms,
            hand_off=terms.is_hand_off,
            share_messages=shares if are_leased_apart else (),
        )
        timeout_s = self.settings.call_timeout_s + wait_ms / 1_000
        answer = yield from ask("PollScheduledMessages", request, POLLED_COLUMNS, timeout_s=timeout_s, wait_ms=wait_ms)
        head = answer.head
        taken = PollResult(head.lease_id, head.lease_expires_at_ms, convert.due_messages(answer), epoch)
        leases = [(share.lease_id, share.message_count) for share in head.shares] if are_leased_apart else None
        return taken.divided(shares, leases)

    def require_poll(self, max_messages: int, wait_ms: int, terms: PollTerms) -> None:
        """Raise InvalidInput for arguments that no poll can have."""
        bounded("max_messages", max_messages, minimum=1, maximum=UINT32_MAX)
        bounded("wait_ms", wait_ms, minimum=0, maximum=UINT32_MAX)
        if terms.lease_ms is not None:
            bounded("lease_ms", terms.lease_ms, minimum=1, maximum=UINT32_MAX)

    def ack(self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn) -> LeaseAck:
        """Return an ack of some positions of a lease."""
        columns = pack_positions(ledger_ids, entry_ids)
        return LeaseAck(_lease(lease_id), self.epoch, len(ledger_ids), lambda: columns)

    def ack_whole(self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn) -> LeaseAck:
        """Return an ack of all positions that a lease still holds."""
        require_equal_lengths(ledger_ids=ledger_ids, entry_ids=entry_ids)
        count = len(ledger_ids)
        packed = partial(pack_positions, ledger_ids, entry_ids)
        return LeaseAck(_lease(lease_id), self.epoch, count, packed, is_whole=0 < count <= self._batches.batch_max)

    def acked(self, acks: Sequence[LeaseAck]) -> Exchange[list[AckOutcome]]:
        """Call AckMessages for several acks; return the result of each, or its error.

        If a lease does not hold as many positions as expected, a second call carries its positions. If the service
        refuses acks together, nothing was applied, and each is sent alone.
        """
        try:
            answers = yield from self._acked_together(acks)
        except InvalidArgument as error:
            if len(acks) == 1 and not acks[0].is_whole:
                return [error]
            if isinstance(error, BatchTooLarge):
                self._batches.take_over_limit(error, sum(ack.count for ack in acks))
            apart: list[AckOutcome] = []
            for ack in acks:
                apart += yield from self.acked([replace(ack, is_whole=False)])
            return apart
        except DelayedTrackerError as error:
            return [error] * len(acks)
        outcomes: list[AckOutcome] = list(answers)
        changed = []
        for place, ack in enumerate(acks):
            if ack.is_whole and not answers[place].acked_count:
                try:
                    ack.packed()
                except InvalidInput as error:  # of this ack, and no matter of the others
                    outcomes[place] = error
                else:
                    changed.append(place)
        if changed:
            named = yield from self.acked([replace(acks[place], is_whole=False) for place in changed])
            for place, outcome in zip(changed, named, strict=True):
                outcomes[place] = outcome
        return outcomes

    def _acked_together(self, acks: Sequence[LeaseAck]) -> Exchange[list[AckAnswer]]:
        head = pb.AckMessagesRequest(tracker=self.tracker, epoch=acks[0].epoch)
        if len(acks) == 1 and not acks[0].is_whole:
            return [(yield from self._acked_alone(head, acks[0]))]
        named_counts = [0 if ack.is_whole else ack.count for ack in acks]
        for ack, named_count in zip(acks, named_counts, strict=True):
            head.leases.add(
                lease_id=ack.lease_id, position_count=named_count, held_count=ack.count if ack.is_whole else 0
            )
        columns = [b"".join(column) for column in zip(*(ack.packed() for ack in acks if not ack.is_whole), strict=True)]
        request = ACK_COLUMNS.encoded(head, columns or (b"", b""))
        answer = yield from ask("AckMessages", request, pb.AckMessagesResponse)
        return divided(named_counts, answer.acked_counts, answer.stale_offsets, answer.unknown_offsets)

    def _acked_alone(self, head: pb.AckMessagesRequest, ack: LeaseAck) -> Exchange[AckAnswer]:
        """Call AckMessages for one ack, as often as its positions need."""
        head.lease_id = ack.lease_id
        parts = yield from self._batches.send_in_batches(
            "AckMessages", head, pb.AckMessagesResponse, fields=ACK_COLUMNS, columns=ack.packed(), total=ack.count
        )
        return AckAnswer(
            acked_count=sum(answer.acked_count for _, answer in parts),
            stale_offsets=all_offsets(parts, "stale_offsets"),
            unknown_offsets=all_offsets(parts, "unknown_offsets"),
        )

    def nack(
        self, lease_id: int, ledger_ids: IntColumn, entry_ids: IntColumn, *, deliver_at_ms: int | None
    ) -> Exchange[NackAnswer]:
        """Call NackMessages, as often as the columns need."""
        ledgers, entries = pack_positions(ledger_ids, entry_ids)
        if deliver_at_ms is not None:
            pack("deliver_at_ms", [deliver_at_ms])
        parts = yield from self._batches.send_in_batches(
            "NackMessages",
            pb.NackMessagesRequest(
                tracker=self.tracker, epoch=self.epoch, lease_id=_lease(lease_id), deliver_at_ms=deliver_at_ms
            ),
            pb.NackMessagesResponse,
            fields=NACK_COLUMNS,
            columns=(ledgers, entries),
            total=len(ledger_ids),
        )
        return NackAnswer(
            returned_count=sum(answer.returned_count for _, answer in parts),
            stale_offsets=all_offsets(parts, "stale_offsets"),
            unknown_offsets=all_offsets(parts, "unknown_offsets"),
        )

    def give_back(self, taken: PollResult) -> Exchange[NackAnswer]:
        """Call NackMessages for all positions of a poll: they are due again at once."""
        messages = taken.messages
        return self.nack(taken.lease_id, messages.ledger_ids, messages.entry_ids, deliver_at_ms=None)

    def extend(
        self, lease_id: int, lease_ms: int, ledger_ids: IntColumn | None, entry_ids: IntColumn | None
    ) -> Exchange[ExtendAnswer]:
        """Call ExtendLease for some positions, or for all that the lease still holds."""
        bounded("lease_ms", lease_ms, minimum=1, maximum=UINT32_MAX)
        ledgers = entries = b""
        total = 0
        if ledger_ids is not None or entry_ids is not None:
            given = () if ledger_ids is None else ledger_ids
            ledgers, entries = pack_positions(given, () if entry_ids is None else entry_ids)
            total = len(given)
            if total == 0:
                raise InvalidInput("ledger_ids", "none", "give some, or leave out both columns for all of the lease")
        parts = yield from self._batches.send_in_batches(
            "ExtendLease",
            pb.ExtendLeaseRequest(tracker=self.tracker, epoch=self.epoch, lease_id=_lease(lease_id), lease_ms=lease_ms),
            pb.ExtendLeaseResponse,
            fields=EXTEND_COLUMNS,
            columns=(ledgers, entries),
            total=total,
        )
        return ExtendAnswer(
            extended_count=sum(answer.extended_count for _, answer in parts),
            expires_at_ms=min(answer.lease_expires_at_ms for _, answer in parts),
            stale_offsets=all_offsets(parts, "stale_offsets"),
            unknown_offsets=all_offsets(parts, "unknown_offsets"),
        )

    def cancel(self, ledger_ids: IntColumn, entry_ids: IntColumn) -> Exchange[CancelAnswer]:
        """Call CancelMessages, as often as the columns need."""
        ledgers, entries = pack_positions(ledger_ids, entry_ids)
        parts = yield from self._batches.send_in_batches(
            "CancelMessages",
            pb.CancelMessagesRequest(tracker=self.tracker, epoch=self.epoch),
            pb.CancelMessagesResponse,
            fields=CANCEL_COLUMNS,
            columns=(ledgers, entries),
            total=len(ledger_ids),
        )
        return CancelAnswer(
            cancelled_count=sum(answer.cancelled_count for _, answer in parts),
            leased_offsets=all_offsets(parts, "leased_offsets"),
            unknown_offsets=all_offsets(parts, "unknown_offsets"),
        )

    def reschedule(
        self, deliver_at_ms: IntColumn, ledger_ids: IntColumn, entry_ids: IntColumn
    ) -> Exchange[RescheduleAnswer]:
        """Call RescheduleMessages, as often as the columns need."""
        parts = yield from self._batches.send_in_batches(
            "RescheduleMessages",
            pb.RescheduleMessagesRequest(tracker=self.tracker, epoch=self.epoch),
            pb.RescheduleMessagesResponse,
            fields=RESCHEDULE_COLUMNS,
            columns=pack_indexes(deliver_at_ms, ledger_ids, entry_ids),
            total=len(deliver_at_ms),
        )
        return RescheduleAnswer(
            rescheduled_count=sum(answer.rescheduled_count for _, answer in parts),
            due_offsets=all_offsets(parts, "due_offsets"),
            duplicate_offsets=all_offsets(parts, "duplicate_offsets"),
            leased_offsets=all_offsets(parts, "leased_offsets"),
            unknown_offsets=all_offsets(parts, "unknown_offsets"),
            beyond_max_delay_offsets=all_offsets(parts, "beyond_max_delay_offsets"),
        )

    def advance_mark_delete(self, position: Position) -> Exchange[MarkDeleteAnswer]:
        """Call AdvanceMarkDelete."""
        request = pb.AdvanceMarkDeleteRequest(
            tracker=self.tracker, epoch=self.epoch, mark_delete=place_message("mark_delete", position)
        )
        answer = yield from ask("AdvanceMarkDelete", request, pb.AdvanceMarkDeleteResponse)
        return MarkDeleteAnswer(convert.position(answer.mark_delete), answer.trimmed_count)

    def reset_cursor(self, mark_delete: Position | None, *, keep_index: bool) -> Exchange[ResetAnswer]:
        """Call ResetCursor; later calls carry the new epoch."""
        request = pb.ResetCursorRequest(
            tracker=self.tracker,
            epoch=self.epoch,
            mark_delete=None if mark_delete is None else place_message("mark_delete", mark_delete),
            keep_index=keep_index,
        )
        answer = yield from ask("ResetCursor", request, pb.ResetCursorResponse)
        self.epoch = answer.epoch
        return ResetAnswer(
            cleared_count=answer.cleared_count,
            replay_from=convert.position(answer.replay_from) if answer.HasField("replay_from") else None,
        )

    def clear(self) -> Exchange[int]:
        """Call ClearMessages; later calls carry the new epoch."""
        request = pb.ClearMessagesRequest(tracker=self.tracker, epoch=self.epoch)
        answer = yield from ask("ClearMessages", request, pb.ClearMessagesResponse)
        self.epoch = answer.epoch
        return answer.cleared_count

    def seal(self) -> Exchange[int]:
        """Call SealBucket."""
        request = pb.SealBucketRequest(tracker=self.tracker, epoch=self.epoch)
        return (yield from ask("SealBucket", request, pb.SealBucketResponse)).sealed_count

    def close(self) -> Exchange[None]:
        """Call CloseTracker."""
        request = pb.CloseTrackerRequest(tracker=self.tracker, epoch=self.epoch)
        yield from ask("CloseTracker", request, pb.CloseTrackerResponse)

    def delete(self) -> Exchange[int]:
        """Call DeleteTracker as the owner."""
        request = pb.DeleteTrackerRequest(tracker=self.tracker, epoch=self.epoch)
        answer = yield from ask(
            "DeleteTracker", request, pb.DeleteTrackerResponse, timeout_s=self.settings.open_timeout_s
        )
        return answer.deleted_count


def _lease(lease_id: int) -> int:
    return bounded("lease_id", lease_id, minimum=0, maximum=UINT64_MAX)
