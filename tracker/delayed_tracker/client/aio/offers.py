"""Offers in reading order: the claim "offered through" follows from their answers, and travels with later offers."""

from collections.abc import Callable

from delayed_tracker.client.aio.adds import Adds
from delayed_tracker.client.model.answers import AddAnswer, Position
from delayed_tracker.client.model.bounds import claim_message
from delayed_tracker.client.queues.offers import OfferedPrefix
from delayed_tracker.client.rules.session import Claim, SessionRules
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.wire.columns import IntColumn, pack_indexes


class Offers:
    """Offers of a dispatcher that reads its topic in order, from ``opened.replay_from`` on; made by ``session.offers``.

    The service keeps the claim that everything up to a position was offered, and the next open returns ``replay_from``
    behind it. The claim never passes an offer that is not answered. It ends with the epoch: after a clear or a reset of
    the cursor, call ``session.offers`` again.
    """

    def __init__(self, adds: Adds, rules: SessionRules, require_open: Callable[[], None]) -> None:
        self._adds = adds
        self._rules = rules
        self._require_session = require_open
        self._epoch = rules.epoch
        self._prefix = OfferedPrefix()

    @property
    def offered_through(self) -> Position | None:
        """Position up to which every range is answered; None before the first answer."""
        return self._prefix.offered_through

    async def offer(
        self, read_through: Position, deliver_at_ms: IntColumn, ledger_ids: IntColumn, entry_ids: IntColumn
    ) -> AddAnswer:
        """Offer the delayed positions among the entries read since the last call, and claim what is answered.

        Offers may be in flight together; call them in reading order. After an error, repeat the offer with the same
        arguments: until it is answered, the claim stays before it.

        Args:
            read_through: last position that was read, whether or not it is delayed; higher than those before.
            deliver_at_ms: wall-clock deadlines, 0 to 2^63-1.
            ledger_ids: 0 to 2^63-1.
            entry_ids: 0 to 2^32-1.
        Raises:
            InvalidInput: a value is out of range or order, 10,000 ranges wait for an answer, or the epoch has ended;
                nothing was sent.
            TrackerCallError: the offer failed, or its answer was lost; repeat it.
        """
        self._require_open()
        claim_message("read_through", read_through)
        columns = pack_indexes(deliver_at_ms, ledger_ids, entry_ids)
        begun = self._prefix.begin(Position(*read_through), columns)
        is_answered = False
        try:
            answer = await self._adds.add_packed(
                columns, len(deliver_at_ms), self._claim(self._prefix.claim_with(begun))
            )
            is_answered = True
        finally:
            self._prefix.end(begun, is_answered=is_answered)
        return answer

    def passed(self, read_through: Position) -> None:
        """Note that no entry since the last call is delayed, without a call: the next offer carries the claim.

        Raises:
            InvalidInput: the position is out of range, or lower than those before; or the epoch has ended.
        """
        self._require_open()
        claim_message("read_through", read_through)
        self._prefix.passed(Position(*read_through))

    async def claim(self) -> Position | None:
        """Send the claim as it is now, without an offer; return the claim that the service keeps, None for none.

        Raises:
            InvalidInput: the epoch has ended.
            TrackerCallError: the call failed, or its answer was lost; repeat it.
        """
        self._require_open()
        answer = await self._adds.add_packed((b"", b"", b""), 0, self._claim(self.offered_through))
        return answer.offered_through

    def _claim(self, position: Position | None) -> Claim | None:
        return None if position is None else Claim(position, self._epoch)

    def _require_open(self) -> None:
        self._require_session()
        if self._rules.epoch != self._epoch:
            remedy = (
                "the tracker was cleared or its cursor reset: call session.offers() again, and read from the beginning"
            )
            raise InvalidInput("epoch", self._epoch, remedy)
