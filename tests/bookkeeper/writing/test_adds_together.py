"""Tests of entries that are added in one call."""

import pytest

from delayed_tracker.bookkeeper.errors import EntryTooLarge
from delayed_tracker.bookkeeper.wire.digest import BODY_HEADER
from delayed_tracker.bookkeeper.wire.replies import Status
from delayed_tracker.core.values.errors import InvalidInput
from tests.bookkeeper.model_bookie import LEDGER
from tests.bookkeeper.writing.ledger import fail_entry, ledger_of


async def test_adds_that_are_sent_together_are_those_of_single_ones():
    """Places, heads and answers are the same; the last add's answer is that of all."""
    async with ledger_of(3, 2, 2) as ledger:
        assert await ledger.adds.add(b"zero") == 0
        assert await ledger.adds.add_all([b"%d" % number for number in range(1, 10)]) == 9
        a, b, c, *_ = ledger.bookies
        assert (sorted(a.entries), sorted(b.entries), sorted(c.entries)) == (
            [0, 2, 3, 5, 6, 8, 9],
            [0, 1, 3, 4, 6, 7, 9],
            [1, 2, 4, 5, 7, 8],
        )
        assert BODY_HEADER.unpack_from(c.entries[7]) == (LEDGER, 7, 0, 11)
        assert (ledger.adds.last_confirmed, ledger.adds.length, ledger.settled) == (9, 13, 13)


async def test_a_bookie_that_fails_amid_adds_sent_together_is_replaced():
    """The new one gets all that the failed one should have had."""
    async with ledger_of(3, 2, 2) as ledger:
        _, b, _, d, _ = ledger.bookies
        fail_entry(b, 4, Status.IO_ERROR)
        assert await ledger.adds.add_all([b"x"] * 10) == 9
        assert [failed for _, _, failed in ledger.spares.changes] == [{1}]
        first = ledger.spares.changes[0][0]
        assert sorted(d.entries) == [entry_id for entry_id in (0, 1, 3, 4, 6, 7, 9) if entry_id >= first]


async def test_one_entry_too_large_sends_none_of_those_together():
    async with ledger_of(1, 1, 1, frame_bytes_max=65_536, in_flight_bytes_max=10**6, pending_bytes_max=10**6) as ledger:
        with pytest.raises(EntryTooLarge, match="an entry of 65536 bytes"):
            ledger.adds.add_all([b"x", bytes(65_536)])
        assert await ledger.adds.add_all([b"y"]) == 0
        assert ledger.bookies[0].entries[0].endswith(b"y")


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [{"pending_entries_max": 3}, {"pending_bytes_max": 2**17}])
async def test_many_entries_wait_for_room_and_keep_their_order(setting_of, bounds):
    """More than the writer may hold are sent part by part."""
    bounds = {"in_flight_bytes_max": 2**17, "pending_bytes_max": 2**17, "frame_bytes_max": 2**16, **bounds}
    async with setting_of(1, **bounds) as setting:
        writer = await setting.create(1, 1, 1)
        assert await writer.add_all([bytes([number]) * 20_000 for number in range(20)]) == 19
        entries = setting.bookies["a"].entries
        assert [entries[number][-1] for number in range(20)] == [*range(20)]
        with pytest.raises(InvalidInput, match="payloads"):
            await writer.add_all([])
        with pytest.raises(EntryTooLarge, match="frame_bytes_max=65536"):
            await writer.add_all([b"x", bytes(100_000)])
        assert (writer.last_confirmed, writer.length) == (19, 400_000)
        # Nothing of what was refused holds room.
        assert await writer.add_all([bytes(60_000)] * 4) == 23
