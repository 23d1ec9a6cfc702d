"""Rows of Pulsar's defects about timers, counts and duplicates, and the actions of a dispatcher on a tracker."""

import pytest

from delayed_tracker.core.values.columns import IndexColumns, Position, PositionColumns
from tests.scenarios.desk import LOAD, Desk

FAR = 3_600_000


@pytest.mark.parametrize("strict", [True, False])
def test_row_49_a_quiet_topic_is_delivered_by_its_own_wakeups(strict: bool) -> None:
    """Without new publishes, each position comes within [deadline, deadline + 2 ticks]; non-strict a tick earlier."""
    desk = Desk(tick_ms=1_000, strict=strict)
    start_ms = desk.now_ms
    desk.add([(1, 0, 3_000), (1, 1, 5_000)])
    delivered = {}
    while desk.count:
        wakeup_ms = desk.next_wakeup_ms()
        assert wakeup_ms is not None
        desk.now_ms = max(desk.now_ms, wakeup_ms)
        for position in desk.due():
            delivered[position] = desk.now_ms - start_ms
    early_ms = 0 if strict else 1_000
    assert delivered == {Position(1, 0): 3_000 - early_ms, Position(1, 1): 5_000 - early_ms}


def test_row_51_counts_move_only_when_a_bit_moves() -> None:
    """Adding a position three times counts once."""
    desk = Desk()
    for _ in range(3):
        desk.A(1, 0, 1_000)
    assert (desk.count, desk.core.stats().duplicate_count) == (1, 2)
    desk.now_ms += 1_000
    assert len(desk.due()) == 1
    assert desk.count == 0


def test_row_52_size_does_not_depend_on_what_is_tracked() -> None:
    """The count and the stats read counters, so their cost does not depend on the number of ledgers."""
    desk = Desk()
    desk.add([(ledger_id, 0, FAR) for ledger_id in range(10_000)])
    bits = desk.core._state.mutable.bits
    bits._by_ledger = None  # every walk of the bitmaps now fails
    assert len(bits) == desk.count == 10_000


def test_row_58_what_was_handed_out_is_not_accepted_again_in_the_same_window() -> None:
    """Within a tick before its deadline a position is due for adds and polls alike."""
    desk = Desk(tick_ms=1_000)
    desk.add([(1, entry_id, 2_000 + entry_id) for entry_id in range(1_000)])
    start_ms, polls = desk.now_ms, 0
    while desk.count:
        wakeup_ms = desk.next_wakeup_ms()
        assert wakeup_ms is not None
        desk.now_ms = max(desk.now_ms + 500, wakeup_ms)
        handed_out = desk.due(10_000)
        polls += 1
        rows = [(start_ms + 2_000 + entry_id, 1, entry_id) for _, entry_id in handed_out]
        assert len(desk.offer(IndexColumns.of(rows)).due) == len(rows)
    assert polls <= 3


@pytest.mark.parametrize("tick_ms", [1, 10, 1_000])
def test_row_59_strict_is_never_early(tick_ms: int) -> None:
    """Strict delivery is never before the deadline, for any tick; non-strict delivery is at most a tick early."""
    for strict in (True, False):
        desk = Desk(tick_ms=tick_ms, strict=strict)
        desk.add([(1, entry_id, 5_000 + 7 * entry_id) for entry_id in range(50)])
        earliest_ms = 5_000 if strict else 5_000 - tick_ms
        desk.now_ms += earliest_ms - 1
        assert desk.due() == []
        desk.now_ms += 1
        assert Position(1, 0) in desk.due()


def test_row_61_a_due_position_left_behind_has_a_wakeup() -> None:
    """A poll that takes fewer than are due leaves a wake-up that is due now."""
    desk = Desk()
    desk.add([(1, 0, 100), (1, 1, 100)])
    desk.now_ms += 200
    assert desk.due(1) == [Position(1, 0)]
    wakeup_ms = desk.next_wakeup_ms()
    assert wakeup_ms is not None
    assert wakeup_ms <= desk.now_ms
    assert desk.due(1) == [Position(1, 1)]


@pytest.mark.parametrize("rewinds", [1, 10])
def test_row_65_and_66_replays_make_no_copies(rewinds: int) -> None:
    """Each position is delivered once, however often a consumer reconnects and the cursor rewinds."""
    desk = Desk(seal_at=3)
    desk.add([(1, entry_id, 1_000) for entry_id in range(3)])
    desk.A(2, 0, 1_000)
    for _ in range(rewinds):
        assert desk.rescan() == []
    assert sorted(desk.drain()) == sorted(desk.unacked)


def test_row_68_and_69_clear_is_legal_in_any_state() -> None:
    """Clearing 100 tracked positions leaves none, late ones included; clearing nothing succeeds."""
    desk = Desk()
    assert desk.core.clear(desk.now) == 0
    desk.add([(1, entry_id, 1_000) for entry_id in range(100)])
    desk.now_ms += 1_000
    desk.core.pop_due(10, desk.now, lease_ms=5_000)
    assert desk.core.clear(desk.now) == 100
    assert desk.core.stats().leased_count == 0
    desk.now_ms += 60_000
    assert (desk.count, desk.due()) == (0, [])


def test_row_64_and_74_what_a_poll_took_returns_unless_it_is_acknowledged() -> None:
    """A dispatcher that loses an answer or fails to read gets the positions again."""
    desk = Desk()
    desk.A(1, 0, 100)
    desk.A(1, 1, 100)
    desk.now_ms += 100
    lost_answer = desk.core.pop_due(1, desk.now, lease_ms=1_000)
    failed_read = desk.core.pop_due(1, desk.now, lease_ms=60_000)
    desk.core.nack(failed_read.lease_id, failed_read.indexes.positions, desk.now)
    assert desk.due(lease_ms=60_000) == [Position(1, 1)]
    desk.sleep(1_000)
    assert desk.core.stats().lease_expired_count == 1
    assert desk.due(lease_ms=60_000) == list(lost_answer.indexes.positions)


def test_row_77_a_deadline_that_passes_without_consumer_is_not_lost() -> None:
    """After a day without polls, the first poll gets everything, loaded or not."""
    desk = Desk(seal_at=3)
    for ledger_id in range(1, 4):
        desk.add([(ledger_id, entry_id, 1_000) for entry_id in range(3)])
    desk.sleep(86_400_000)
    assert len(desk.due(100)) == 9


def test_row_55_growth_is_by_chunks() -> None:
    """A batch copies no earlier content; single adds are joined with few others."""
    desk = Desk(mutable_indexes_max=10_000_000)
    for number in range(100):
        desk.core.add(IndexColumns.of([(desk.now_ms + FAR, number, entry) for entry in range(300)]), desk.now)
    (run,) = desk.core._state.heap
    assert [len(chunk) for chunk in run.chunks()] == [300] * 100
    for number in range(1_000):
        desk.core.add(IndexColumns.of([(desk.now_ms + FAR, 100, number)]), desk.now)
    assert max(len(chunk) for chunk in run.chunks()) == 300
    assert len(run.chunks()) < 120


def test_row_56_memory_follows_what_is_left() -> None:
    """After 100,000 positions are drained to 100, no column of the drained ones lives for more than a second."""
    desk = Desk()
    desk.add([(1, entry_id, 1_000 + entry_id // 1_000) for entry_id in range(100_000)])
    desk.now_ms += 2_000
    while desk.count > 100:
        desk.due(min(1_000, desk.count - 100))
    desk.sleep(1_000)
    (run,) = desk.core._state.heap
    kept = run.rows.deliver_at_ms
    owner = kept if kept.base is None else kept.base
    assert len(owner) <= 10_000


def test_an_expired_lease_may_still_be_acknowledged() -> None:
    """An ack after the lease expired succeeds unless the position is leased again: then it is stale."""
    desk = Desk()
    desk.add([(1, 0, 100), (1, 1, 100)])
    desk.now_ms += 100
    first = desk.core.pop_due(2, desk.now, lease_ms=10)
    desk.sleep(20)
    second = desk.core.pop_due(1, desk.now, lease_ms=1_000)
    assert list(second.indexes.positions) == [Position(1, 0)]
    outcome = desk.core.ack(first.lease_id, PositionColumns.of([(1, 0), (1, 1)]), desk.now)
    assert (outcome.changed_count, outcome.stale.tolist()) == (1, [0])
    assert desk.count == 1


def test_polls_do_not_wait_for_a_segment_that_is_loading() -> None:
    """Due positions that are loaded are handed out while another segment is in flight."""
    desk = Desk(seal_at=2)
    desk.add([(1, 0, 1_000), (1, 1, 1_000)])
    desk.A(2, 0, 1_000)
    desk.held.add(LOAD)
    desk.sleep(1_000)
    assert desk.due() == [Position(2, 0)]
    desk.release(LOAD)
    assert desk.due() == [Position(1, 0), Position(1, 1)]
