"""The table of leases on its own: ids, expiry, and outstanding rows."""

import pytest

from delayed_tracker.core.engine.leases import LeaseTable
from delayed_tracker.core.values.columns import IndexColumns, Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.core.values.limits import TrackerLimits
from tests.core.harness.shell import positions

ROWS = [(5, 1, 0), (6, 1, 1), (7, 2, 0)]


def granted(*expiries_ms: int) -> LeaseTable:
    """Return a table with one row of ROWS under each lease."""
    table = LeaseTable(TrackerLimits())
    for row, expires_at_ms in zip(ROWS, expiries_ms, strict=False):
        table.grant(IndexColumns.of([row]), expires_at_ms)
    return table


def test_ids_rise_from_one_and_are_never_used_again():
    """An id is used for one answer only, also after a clear."""
    table = granted(100, 100)
    table.clear()
    assert table.grant(IndexColumns.of(ROWS), 100) == 3
    table.check()


@pytest.mark.parametrize("lease_id", [-1, 0, 3])
def test_an_id_that_was_never_given_out_is_refused(lease_id):
    """An id that was never issued is refused: the caller has a bug that must be visible."""
    with pytest.raises(InvalidInput, match="lease_id"):
        granted(100, 100).require_issued(lease_id)


def test_an_id_that_has_ended_is_known():
    """The id of an ended lease is not an error: the lease holds nothing."""
    table = granted(100)
    table.expire(100)
    table.require_issued(1)
    assert table.held_by(1, positions((1, 0))).tolist() == [False]


def test_a_lease_keeps_its_own_rows_in_memory_and_no_others():
    """Polls take slices of large blocks, which one lease of a few rows would keep as long as it lasts."""
    block = IndexColumns.of([(5, 1, entry) for entry in range(1_000)])
    table = LeaseTable(TrackerLimits())
    taken = block.take(slice(0, 20))
    first = table.grant(taken, 100)
    table.divide(first, [taken.take(slice(0, 10)), taken.take(slice(10, 20))])
    table.grant(block.take(slice(20, 30)), 100)
    for entry in (0, 10, 20):
        lease = table.holder(Position(1, entry))
        assert lease is not None
        assert [next(iter(lease.indexes)), len(lease.indexes)] == [(5, 1, entry), 10]
        for column in (lease.indexes.deliver_at_ms, lease.indexes.ledger_id, lease.indexes.entry_id):
            assert column.base is None


def test_a_lease_ends_at_its_expiry_and_not_before():
    """A lease has ended at the exact moment of its expiry."""
    table = granted(100)
    assert table.expire(99) == []
    assert [list(rows) for rows in table.expire(100)] == [[ROWS[0]]]
    assert len(table) == 0
    table.check()


def test_expiry_follows_time_not_the_order_of_grants():
    """The next expiry is the earliest; each lease expires once."""
    table = granted(300, 100, 200)
    assert table.next_expiry_ms() == 100
    assert [list(rows) for rows in table.expire(200)] == [[ROWS[1]], [ROWS[2]]]
    assert table.next_expiry_ms() == 300
    assert table.expire(200) == []
    table.check()


def test_release_ends_a_lease_with_its_last_position():
    """Released rows are returned with their deadlines; the other rows stay leased."""
    table = LeaseTable(TrackerLimits())
    lease_id = table.grant(IndexColumns.of(ROWS), 100)
    assert list(table.release(lease_id, positions((1, 1)))) == [ROWS[1]]
    assert table.held_by(lease_id, positions((1, 0), (1, 1), (2, 0))).tolist() == [True, False, True]
    assert table.next_expiry_ms() == 100
    table.release(lease_id, positions((1, 0), (2, 0)))
    assert (len(table), len(table.bits), table.next_expiry_ms()) == (0, 0, None)
    table.check()


def extended_one_by_one(count: int) -> LeaseTable:
    """Return a table with one lease, whose positions expire one after the other, from 1,000 ms on."""
    table = LeaseTable(TrackerLimits())
    lease_id = table.grant(IndexColumns.of([(entry, 1, entry) for entry in range(count)]), 100)
    for entry in range(count):
        table.extend(lease_id, positions((1, entry)), 1_000 + entry)
    return table


def test_a_lease_that_is_extended_position_by_position_keeps_few_parts():
    """Every call of a lease visits all its parts, so their number is logarithmic; and each position keeps its own expiry."""
    table = extended_one_by_one(600)
    assert len(table._leases[1]) <= 10
    table.check()
    assert table.expire(999) == []
    for entry in range(0, 600, 100):
        assert table.next_expiry_ms() == 1_000 + entry
        ended = [row for rows in table.expire(1_099 + entry) for row in rows]
        assert sorted(ended) == [(row, 1, row) for row in range(entry, entry + 100)]
        table.check()
    assert (len(table), len(table.bits), table.next_expiry_ms()) == (0, 0, None)


def test_what_is_left_of_joined_parts_expires_when_it_was_promised():
    """The next expiry is that of a position that is leased, not of one that was released or dropped."""
    table = extended_one_by_one(7)
    assert len(table._leases[1]) < 7
    assert list(table.release(1, positions((1, 3), (1, 0)))) == [(0, 1, 0), (3, 1, 3)]
    assert table.next_expiry_ms() == 1_001
    table.check()
    table.drop_through(Position(1, 1))
    assert len(table.of(1)) == 4
    assert table.next_expiry_ms() == 1_002
    table.check()
    lease = table.holder(Position(1, 5))
    assert lease is not None
    assert lease.expiry_of(Position(1, 5)) == 1_005
    assert [row for rows in table.expire(1_004) for row in rows] == [(2, 1, 2), (4, 1, 4)]
    assert table.ended.handed_out_by(1, positions((1, 4)), 1_004 + TrackerLimits().late_ack_ms - 1).tolist() == [True]
    assert table.ended.handed_out_by(1, positions((1, 4)), 1_004 + TrackerLimits().late_ack_ms).tolist() == [False]
    table.check()


def test_joined_parts_of_two_leases_expire_in_the_order_of_their_ends():
    """Ended leases are remembered in the order of their ends, whichever lease a position had."""
    table = LeaseTable(TrackerLimits())
    both = [table.grant(IndexColumns.of([(5, ledger, entry) for entry in range(8)]), 100) for ledger in (1, 2)]
    for entry in range(8):
        for lease_id in both:
            table.extend(lease_id, positions((lease_id, entry)), 1_000 + 2 * entry + lease_id)
    table.check()
    assert len([row for rows in table.expire(1_009) for row in rows]) == 9
    table.check()
    assert len([row for rows in table.expire(2_000) for row in rows]) == 7
    table.check()


def test_drop_through_ends_leases_that_hold_nothing_more():
    """Mark-delete also acknowledges leased positions."""
    table = granted(100, 200)
    table.drop_through(Position(1, 1))
    assert (len(table), table.next_expiry_ms(), len(table.bits)) == (0, None, 0)
    table.check()


def test_drop_through_looks_at_all_leases_only_when_that_is_worth_it():
    """Dropped positions are gone at once in every query, though the leases are trimmed only now and then."""
    table = granted(100, 200, 300)
    table.drop_through(Position(1, 1))
    assert len(table) == 3
    assert list(table.bits.to_columns()) == [Position(2, 0)]
    table.check()
    assert table.held_by(1, positions((1, 0))).tolist() == [False]
    assert [list(rows) for rows in table.expire(100)] == [[]]
    assert [list(rows) for rows in table.outstanding()] == [[ROWS[2]]]
    assert (len(table), table.next_expiry_ms()) == (1, 300)
    table.check()


def test_a_dropped_lease_that_was_looked_at_waits_for_the_others():
    """A dropped lease holds nothing, and a read of it does not end it."""
    table = granted(100, 200, 300)
    table.drop_through(Position(1, 0))
    assert table.held_by(1, positions((1, 0))).tolist() == [False]
    table.check()
    assert [list(rows) for rows in table.expire(100)] == [[]]
    assert len(table) == 2
    table.check()


def test_release_all_gives_back_what_is_outstanding():
    """Rows acknowledged earlier are not returned."""
    table = LeaseTable(TrackerLimits())
    lease_id = table.grant(IndexColumns.of(ROWS), 100)
    table.release(lease_id, positions((1, 0)))
    assert [list(rows) for rows in table.release_all()] == [ROWS[1:]]
    assert len(table.bits) == 0
    table.check()
