"""Every call of the client against the real service, through each shell."""

import pytest

from delayed_tracker.client import (
    AddResult,
    EntryRange,
    Fenced,
    Position,
    RescheduleResult,
    TrackerNotOpen,
)
from tests.client.harness.shells import Batches
from tests.integration.harness.dispatcher import SETTINGS, now_ms
from tests.integration.harness.lab import HOUR_MS, TOPIC, add

WAIT_MS = 60_000

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def shared_settings() -> dict[str, str]:
    return SETTINGS


async def test_a_message_from_add_to_ack(session):
    """A message can be added, leased, extended, given back, leased again and acknowledged."""
    in_ms = 300
    while (result := await session.add(now_ms() + in_ms, 7, 1)) is AddResult.DUE:
        in_ms *= 4  # the machine stood still for longer
    assert result is AddResult.ADDED
    lease = await session.poll(10, wait_ms=WAIT_MS, lease_ms=30_000)
    assert list(lease.messages) == [Position(7, 1)]
    expires_at_ms = lease.expires_at_ms
    assert (await lease.extend(60_000)).extended_count == 1
    assert lease.expires_at_ms > expires_at_ms
    assert (await lease.extend(60_000, [Position(7, 1)])).extended_count == 1
    await lease.nack()
    async with await session.poll(10) as again:
        assert list(again.messages) == [Position(7, 1)]
    assert await session.contains([7], [1]) == [False]


async def test_a_stream_of_batches_is_answered_in_order(session):
    """Due and tracked positions are answered by offset, batches in order."""
    at_ms = now_ms() + HOUR_MS
    batches = [([at_ms] * 20, [ledger_id] * 20, range(20)) for ledger_id in range(50)]
    answers = [answer async for answer in session.add_stream(Batches(*batches, batches[0], ([0], [99], [0])))]
    assert [answer.added_count for answer in answers] == [20] * 50 + [0, 0]
    assert answers[50].duplicate_offsets == tuple(range(20))
    assert answers[51].due_offsets == (0,)


async def test_a_stream_of_somebody_who_was_fenced_ends(client, session):
    """The stream of a fenced owner ends with the error that other calls raise."""
    await client.open_tracker(TOPIC, "workers", owner="another")
    with pytest.raises(Fenced, match="another"):
        await anext(aiter(session.add_stream(Batches(([1], [1], [1])))))


async def test_a_cancel_answers_each_position(session):
    """A position is cancelled, leased, or not tracked."""
    await add(session, 7, 3)
    await add(session, 8, 1, in_ms=200)
    async with await session.poll(1, wait_ms=WAIT_MS) as lease:
        assert list(lease.messages) == [Position(8, 0)]
        answer = await session.cancel([7, 8, 9], [1, 0, 0])
        assert (answer.cancelled_count, answer.leased_offsets, answer.unknown_offsets) == (1, (1,), (2,))
    assert await session.filter_entries([EntryRange(7, 0, 4), EntryRange(5, 0, 1)]) == (
        EntryRange(7, 1, 1),
        EntryRange(7, 3, 4),
        EntryRange(5, 0, 1),
    )


async def test_a_reschedule_brings_a_message_forward(session):
    """A message on disk that is due in an hour is polled at its new deadline, and the others stay."""
    await add(session, 9, 3)
    assert await session.seal() == 3
    answer = await session.reschedule([now_ms() + 200, now_ms() + 2 * HOUR_MS, 0], [9, 9, 9], [1, 2, 7])
    assert answer.results(3) == [
        RescheduleResult.RESCHEDULED,
        RescheduleResult.RESCHEDULED,
        RescheduleResult.UNKNOWN,
    ]
    async with await session.poll(10, wait_ms=WAIT_MS) as lease:
        assert list(lease.messages) == [Position(9, 1)]
    assert await session.contains([9] * 3, [0, 1, 2]) == [True, False, True]


async def test_a_membership_is_read_whole(client, session):
    """A session and a view read every tracked position; who was fenced reads nothing."""
    await add(session, 7, 3)
    await add(session, 8, 20_000)
    expected = {7: [0, 1, 2], 8: list(range(20_000))}
    for reader in (session, client.view_tracker(TOPIC, "workers")):
        assert {part.ledger_id: list(part.entry_ids()) async for part in reader.membership()} == expected
    await client.open_tracker(TOPIC, "workers", owner="another")
    with pytest.raises(Fenced, match="another"):
        await anext(aiter(session.membership()))


async def test_a_reset_may_keep_the_index(session):
    """Positions above the given one stay tracked under the new epoch, and the rest is added again."""
    await add(session, 7, 20)
    await session.advance_mark_delete(7, 14)
    epoch = session.epoch
    answer = await session.reset_cursor(Position(7, 4), keep_index=True)
    assert (answer.cleared_count, answer.replay_from) == (0, Position(7, 5))
    assert session.epoch > epoch
    assert await session.contains([7] * 20, range(20)) == [False] * 15 + [True] * 5
    readded = await session.add_columns([now_ms() + HOUR_MS] * 20, [7] * 20, range(20))
    assert (readded.added_count, readded.duplicate_offsets) == (10, tuple(range(15, 20)))


async def test_a_reset_a_seal_and_a_delete(client, session):
    """A session outlives a reset and ends with its tracker."""
    await add(session, 7, 20)
    epoch = session.epoch
    answer = await session.reset_cursor(Position(5, -1))
    assert (answer.cleared_count, answer.replay_from) == (20, Position(5, 0))
    assert session.epoch > epoch
    await add(session, 7, 30)
    assert await session.seal() == 30
    assert await session.seal() == 0
    listed = [tracker async for tracker in client.list_trackers(TOPIC)]
    assert [(row.subscription, row.open, row.pending_count) for row in listed] == [("workers", True, 30)]
    assert [tracker async for tracker in client.list_trackers("persistent://nowhere")] == []
    assert await session.delete() == 30
    with pytest.raises(TrackerNotOpen):
        await client.view_tracker(TOPIC, "workers").stats()
    assert [tracker async for tracker in client.list_trackers(TOPIC)] == []
    assert await client.delete_tracker(TOPIC, "workers") == 0
