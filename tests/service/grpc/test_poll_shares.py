"""Several polls in one call: the positions of each, and the separate lease of each."""

import pytest

from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, opened, poll, refused, stats_of
from tests.service.harness.shell import running_service, until


@pytest.fixture
async def service():
    async with running_service(service_limits=ServiceLimits(leased_positions_max=6)) as running:
        yield running


async def offered(service, epoch, count):
    """Add so many positions that become due soon."""
    now = service.clock.now_ms()
    await service.stub.AddMessages(add(epoch, *((now + 1 + entry, 1, entry) for entry in range(count))))


async def test_each_share_has_a_lease_of_its_own(service):
    """The first share gets the earliest positions; shares are acknowledged and given back as if polled apart."""
    epoch = await opened(service)
    await offered(service, epoch, 5)
    service.clock.advance(100)
    answer = await service.stub.PollScheduledMessages(poll(epoch, max_messages=9, share_messages=[2, 4, 1, 2]))
    assert answer.entry_ids == [0, 1, 2, 3, 4]
    assert [share.message_count for share in answer.shares] == [2, 3]
    first, second = (share.lease_id for share in answer.shares)
    assert first == answer.lease_id != second
    acked = await service.stub.AckMessages(
        pb.AckMessagesRequest(tracker=REF, epoch=epoch, lease_id=first, ledger_ids=[1, 1], entry_ids=[0, 1])
    )
    assert acked.acked_count == 2
    nacked = await service.stub.NackMessages(
        pb.NackMessagesRequest(tracker=REF, epoch=epoch, lease_id=first, ledger_ids=[1], entry_ids=[2])
    )
    assert nacked.stale_offsets == [0]
    assert (await stats_of(service)).leased_count == 3
    service.clock.advance(answer.lease_expires_at_ms - service.clock.now_ms())
    assert (await service.stub.PollScheduledMessages(poll(epoch))).entry_ids == [2, 3, 4]


async def test_shares_take_what_there_is_room_for(service):
    """The limit of leased positions ends a call of several polls, and no position is lost."""
    epoch = await opened(service)
    await offered(service, epoch, 9)
    service.clock.advance(100)
    answer = await service.stub.PollScheduledMessages(poll(epoch, max_messages=9, share_messages=[3, 3, 3]))
    assert [share.message_count for share in answer.shares] == [3, 3]
    assert answer.entry_ids == [*range(6)]
    assert (await stats_of(service)).leased_count == 6


async def test_the_first_share_waits_for_all(service):
    """A call of several polls may wait, and ends with the first due position."""
    epoch = await opened(service)
    call = service.stub.PollScheduledMessages(poll(epoch, max_messages=3, share_messages=[1, 2], wait_ms=1_000))
    await until(lambda: service.registry.waiting_poll_count == 1)
    await offered(service, epoch, 1)
    service.clock.advance(10)
    answer = await call
    assert (answer.entry_ids, len(answer.shares)) == ([0], 1)
    empty = await service.stub.PollScheduledMessages(poll(epoch, max_messages=3, share_messages=[1, 2]))
    assert (empty.entry_ids, len(empty.shares), empty.lease_id) == ([], 0, 0)


@pytest.mark.parametrize(
    ("wrong", "field", "said"),
    [
        ({"share_messages": [4, 5]}, "share_messages", "9 is not valid; give shares that make up max_messages (10)"),
        ({"share_messages": [10, 0]}, "share_messages[1]", "0 at offset 1 is not valid; give 1 or more for each share"),
        (
            {"share_messages": [0, 9, 0, 2**31 - 1], "max_messages": 3},
            "share_messages[0]",
            "0 at offsets 0, 2 (2 in all) is not valid; give 1 or more for each share",
        ),
        (
            {"share_messages": [5, 5], "hand_off": True},
            "share_messages",
            "2 is not valid; leave it unset when hand_off is set",
        ),
    ],
)
async def test_shares_that_do_not_fit_are_refused(service, wrong, field, said):
    """Shares must be at least 1, add up to max_messages, and have a lease; the answer names the error."""
    epoch = await opened(service)
    error, info, found = await refused(service.stub.PollScheduledMessages(poll(epoch, **wrong)))
    assert info.reason == "INVALID_INPUT"
    assert found["BadRequest"].field_violations[0].field == field
    assert said in error.details()
