"""The membership in parts: every tracked position, in parts of bounded bytes and ledgers."""

import itertools
import random

import pytest
from pyroaring import BitMap

from delayed_tracker.core.index.membership import Membership
from delayed_tracker.core.inspect.membership_parts import LEDGERS_MAX, PART_BYTES, MembershipReading
from delayed_tracker.core.values.columns import Position, PositionColumns
from delayed_tracker.core.values.limits import TrackerLimits
from delayed_tracker.core.values.position_bitmap import PositionBitmap
from delayed_tracker.core.values.verb_results import BucketState
from tests.core.harness.shell import DUE_MS, LATER_MS, STRICT, Shell

MANY = TrackerLimits(strict=True, mutable_indexes_max=10**7, min_index_count_per_bucket=10**7, late_indexes_max=10**7)


def parts_of(core) -> list[list[tuple[int, bytes]]]:
    """Read a core to the end."""
    reading, parts = core.begin_membership(), []
    while not reading.is_over:
        parts.append(core.membership_part(reading))
    return parts


def united(parts) -> dict[int, BitMap]:
    """Unite the bitmaps of each ledger."""
    found: dict[int, BitMap] = {}
    for part in parts:
        for ledger_id, encoded in part:
            found.setdefault(ledger_id, BitMap())
            found[ledger_id] |= BitMap.deserialize(encoded)
    return found


def members_of(**by_ledger: BitMap) -> Membership:
    """Return the membership of these entries, by names such as l7, in two buckets."""
    members = Membership()
    for number in range(2):
        bucket = members.open_bucket(BucketState.MUTABLE)
        halves = {int(name[1:]): BitMap(entries.to_array()[number::2]) for name, entries in by_ledger.items()}
        bucket.bits = PositionBitmap.from_bitmaps(halves)
        members.note_ledgers(bucket)
    return members


def read(members: Membership) -> list[list[tuple[int, bytes]]]:
    """Read a membership that does not change."""
    reading, parts = MembershipReading(members.ledger_ids()), []
    while not reading.is_over:
        parts.append(reading.next_part(members))
    return parts


def test_an_empty_tracker_has_no_parts():
    """A reading of nothing is over at once."""
    assert parts_of(Shell.with_limits(STRICT).core) == []


def test_all_homes_of_a_position_are_read():
    """Stored, sealing, mutable, late and leased positions are in the answer, each ledger once, ascending."""
    shell = Shell.with_limits(TrackerLimits(strict=True, late_indexes_max=100))
    shell.add(*[(DUE_MS, 5, entry) for entry in range(4)])
    shell.core.seal_mutable_bucket(shell.now)
    shell.store()
    shell.add((LATER_MS, 5, 9), (LATER_MS, 9, 0))
    shell.core.seal_mutable_bucket(shell.now)
    shell.add((LATER_MS, 5, 2**32 - 1), (LATER_MS, 3, 7), (LATER_MS, 2**63 - 1, 0))
    shell.now_ms = DUE_MS
    assert len(shell.pop(2, lease_ms=1_000).indexes) == 2
    (part,) = parts_of(shell.core)
    assert next(ledger_id for ledger_id, _ in part) == 3
    assert [ledger_id for ledger_id, _ in part] == sorted(ledger_id for ledger_id, _ in part)
    assert united([part]) == {
        3: BitMap([7]),
        5: BitMap([0, 1, 2, 3, 9, 2**32 - 1]),
        9: BitMap([0]),
        2**63 - 1: BitMap([0]),
    }


def test_consumed_positions_are_not_read_before_their_bits_are_cleared():
    """Positions that were handed off or acknowledged are not in the answer, although their bits wait to be cleared."""
    shell = Shell.with_limits(STRICT)
    shell.add(*[(DUE_MS, 1, entry) for entry in range(4)])
    shell.now_ms = DUE_MS
    assert len(shell.pop(1).indexes) == 1
    assert shell.core._state.defers
    assert united(parts_of(shell.core)) == {1: BitMap([1, 2, 3])}


LARGE = {
    "every container twice": lambda: BitMap(range(7, 2**32, 2**15)),
    "lists": lambda: BitMap(range(0, 700 * 2**16, 60)),
    "bitsets": lambda: (
        BitMap(range(0, 12_000_000, 13)) | BitMap(range(1, 12_000_000, 13)) | BitMap(range(5, 12_000_000, 17))
    ),
    "a run that ends behind a part": lambda: BitMap(range(127 * 2**16 + 1)),
    "a run that ends with a part": lambda: BitMap(range(127 * 2**16)),
    "at random": lambda: BitMap(random.Random(7).sample(range(2**32), 300_000)),
    "both ends": lambda: BitMap([0, 2**32 - 1]),
}


@pytest.mark.parametrize("name", LARGE)
def test_a_large_ledger_is_split_by_ranges(name):
    """Each part is below its bound, ranges ascend without overlap, and together they are the ledger."""
    entries = LARGE[name]()
    parts = read(members_of(l7=entries))
    assert all(sum(len(encoded) + 16 for _, encoded in part) <= PART_BYTES for part in parts)
    pieces = [BitMap.deserialize(encoded) for part in parts for _, encoded in part]
    assert all(before.max() < after.min() for before, after in itertools.pairwise(pieces))
    assert united(parts) == {7: entries}


@pytest.mark.parametrize("name", ["lists", "bitsets", "every container twice", "at random"])
def test_parts_are_well_filled(name):
    """Each part but the last takes at least half of its bound."""
    sizes = [sum(len(encoded) for _, encoded in part) for part in read(members_of(l7=LARGE[name]()))]
    assert all(size >= PART_BYTES // 2 for size in sizes[:-1])


def test_many_small_ledgers_are_bounded_by_number():
    """A part ends after so many ledgers, however small they are."""
    shell = Shell.with_limits(MANY)
    shell.add(*[(LATER_MS, ledger_id, 3) for ledger_id in range(3 * LEDGERS_MAX)])
    parts = parts_of(shell.core)
    assert [len(part) for part in parts] == [LEDGERS_MAX] * 3
    assert united(parts) == {ledger_id: BitMap([3]) for ledger_id in range(3 * LEDGERS_MAX)}


def test_what_is_handed_off_between_two_parts_is_not_in_the_second():
    """Bits that wait to be cleared count for no part."""
    shell = Shell.with_limits(MANY)
    shell.add(*[(LATER_MS, ledger_id, 3) for ledger_id in range(LEDGERS_MAX)], *[(DUE_MS, 10**6, e) for e in range(4)])
    shell.now_ms = DUE_MS
    reading = shell.core.begin_membership()
    assert 10**6 not in united([shell.core.membership_part(reading)])
    assert len(shell.pop(1).indexes) == 1
    assert shell.core._state.defers
    assert united([shell.core.membership_part(reading)]) == {10**6: BitMap([1, 2, 3])}


def test_a_reading_sees_each_part_as_it_is_then():
    """A position tracked all the while is read; ledgers that drain or appear in between are no error."""
    shell = Shell.with_limits(MANY)
    shell.add(*[(LATER_MS, ledger_id, 3) for ledger_id in range(LEDGERS_MAX + 10)])
    reading = shell.core.begin_membership()
    first = shell.core.membership_part(reading)
    gone = [Position(ledger_id, 3) for ledger_id in (0, LEDGERS_MAX + 1)]
    shell.core.cancel(PositionColumns.of(gone), shell.now)
    shell.add((LATER_MS, LEDGERS_MAX + 2, 8), (LATER_MS, 10**6, 0))
    rest = shell.core.membership_part(reading)
    assert reading.is_over
    found = united([first, rest])
    assert found.keys() == set(range(LEDGERS_MAX + 10)) - {LEDGERS_MAX + 1}
    assert found[LEDGERS_MAX + 2] == BitMap([3, 8])
