"""Service for tests of acks: leases in a real core, and answers like the servicer's."""

from collections.abc import Sequence
from typing import TypeVar

from delayed_tracker.client.errors import BatchTooLarge, Fenced, InvalidArgument
from delayed_tracker.client.model.answers import OpenAnswer, Position
from delayed_tracker.client.model.exchange import Call, Exchange, performed
from delayed_tracker.client.model.settings import ClientSettings
from delayed_tracker.client.queues.ack_queue import AckOutcome, LeaseAck
from delayed_tracker.client.rules.session import SessionRules
from delayed_tracker.core.values.columns import PositionColumns
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service import errors
from delayed_tracker.service.grpc.wire import to_positions
from delayed_tracker.service.grpc.wire_acks import from_acked, to_lease_acks
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.message_columns import ACK_COLUMNS
from tests.core.harness.shell import due_shell

Result = TypeVar("Result")


class LeasingService:
    """Service that records its calls and answers them."""

    def __init__(self, count: int, *, client_batch_max: int = 100, batch_max: int = 100) -> None:
        self.shell = due_shell(count)
        self.batch_max = batch_max
        self.epoch = 7
        self.calls: list[pb.AckMessagesRequest] = []
        """Requests with their columns."""
        opened = OpenAnswer(epoch=7, recovered_count=0, bucket_count=0, replay_from=None)
        settings = ClientSettings(batch_max=client_batch_max)
        self.rules = SessionRules(settings, "persistent://shop/orders/events", "billing", opened)

    def lease(self, count: int) -> tuple[int, list[Position]]:
        """Lease this many positions; return id and positions."""
        delivery = self.shell.pop(count, lease_ms=50)
        return delivery.lease_id, list(delivery.indexes.positions)

    def whole(self, count: int) -> LeaseAck:
        """Return an ack of all positions of a new lease."""
        lease_id, positions = self.lease(count)
        return self.rules.ack_whole(lease_id, *columns(positions))

    def answer(self, call: Call) -> pb.AckMessagesResponse:
        """Return the answer of the service, or raise the error of the client."""
        assert call.method == "AckMessages"
        assert isinstance(call.request, bytes)
        self.calls.append(pb.AckMessagesRequest.FromString(call.request))
        columned = ACK_COLUMNS.FromString(call.request)
        request = columned.head
        if request.epoch != self.epoch:
            raise Fenced("opened anew")
        try:
            positions = to_positions(columned.columns, batch_max=self.batch_max)
            if request.leases:
                acks = to_lease_acks(request, positions, positions_max=self.batch_max)
                return from_acked(acks, self.shell.core.ack_leases(acks, self.shell.now))
            outcome = self.shell.core.ack(request.lease_id, positions, self.shell.now)
            return pb.AckMessagesResponse(
                acked_count=outcome.changed_count, stale_offsets=outcome.stale, unknown_offsets=outcome.unknown
            )
        except InvalidInput as error:
            raise InvalidArgument(str(error)) from error
        except errors.BatchTooLarge as error:
            raise BatchTooLarge(str(error), metadata=dict(error.metadata)) from error

    def perform(self, exchange: Exchange[Result]) -> Result:
        """Make all calls of an exchange, each answered at once."""
        return performed(exchange, self.answer)

    def send(self, acks: Sequence[LeaseAck]) -> list[AckOutcome]:
        """Send acks as a blocking session does."""
        return self.perform(self.rules.acked(acks))

    @property
    def tracked(self) -> set[Position]:
        """Return the positions that are still leased or returned."""
        core = self.shell.core
        candidates = [Position(1, entry) for entry in range(400)]
        present = core.contains(PositionColumns.of(candidates))
        return {position for position, is_tracked in zip(candidates, present, strict=True) if is_tracked}


def columns(positions: Sequence[Position]) -> tuple[list[int], list[int]]:
    """Return ledger ids and entry ids."""
    return [position[0] for position in positions], [position[1] for position in positions]
