"""Several acks in one call: each has its own outcome, and all are validated before one is applied."""

import pytest

from delayed_tracker.service.limits import ServiceLimits
from delayed_tracker.v1 import tracker_pb2 as pb
from delayed_tracker.wire.calls import ACKS_MAX
from tests.service.harness.rpc import REF, add, opened, poll, refused, stats_of
from tests.service.harness.shell import running_service


@pytest.fixture
async def service():
    async with running_service(service_limits=ServiceLimits(batch_max=9, poll_messages_max=9)) as running:
        yield running


async def leased(service, *shares):
    """Return the epoch and a lease for each of the given numbers of positions: entries 0, 1, ... in that order."""
    epoch = await opened(service)
    now = service.clock.now_ms()
    for entry in range(sum(shares)):
        await service.stub.AddMessages(add(epoch, (now + 1 + entry, 1, entry)))
    service.clock.advance(100)
    answer = await service.stub.PollScheduledMessages(poll(epoch, max_messages=sum(shares), share_messages=shares))
    assert [share.message_count for share in answer.shares] == list(shares)
    return epoch, [share.lease_id for share in answer.shares]


def ack(epoch, *leases, entries=(), **fields):
    acks = [pb.LeaseAck(lease_id=lease_id, **count) for lease_id, count in leases]
    return pb.AckMessagesRequest(
        tracker=REF, epoch=epoch, leases=acks, ledger_ids=[1] * len(entries), entry_ids=entries, **fields
    )


def whole(lease_id, count):
    return lease_id, {"held_count": count}


def some(lease_id, count):
    return lease_id, {"position_count": count}


async def test_leases_are_acknowledged_together(service):
    """Leases are acknowledged by id or by position; the counts divide the columns, and offsets refer to the columns."""
    epoch, (first, second, third) = await leased(service, 2, 2, 3)
    request = ack(epoch, some(first, 2), whole(second, 2), whole(third, 2), some(third, 3), entries=[0, 8, 2, 4, 1])
    answer = await service.stub.AckMessages(request)
    assert answer.acked_counts == [1, 2, 0, 1]
    assert answer.acked_count == 4
    assert answer.stale_offsets == [4]
    assert answer.unknown_offsets == [1, 2]
    assert (await stats_of(service)).leased_count == 3


async def test_an_ack_of_nothing_acknowledges_nothing(service):
    """An ack without positions acknowledges nothing, as in a call of its own."""
    epoch, (first, second) = await leased(service, 2, 2)
    answer = await service.stub.AckMessages(ack(epoch, some(first, 0), whole(second, 2)))
    assert answer.acked_counts == [0, 2]


@pytest.mark.parametrize(
    ("leases", "fields", "field", "words"),
    [
        ([whole(1, 2)], {"lease_id": 1}, "lease_id", "unset"),
        ([some(1, 1)], {}, "leases", "position_count 2, the number of positions"),
        ([some(1, 3)], {}, "leases", "position_count 2, the number of positions"),
        ([some(1, 1), (2, {"position_count": 1, "held_count": 2})], {}, "leases[1].held_count", "either"),
        ([some(1, 2), whole(99, 2)], {}, "lease_id", "99"),
        ([some(1, 2), whole(0, 2)], {}, "lease_id", "poll"),
        ([some(1, 2), *[whole(2, 1)] * ACKS_MAX], {}, "leases", "at most 1000"),
    ],
)
async def test_acks_that_do_not_fit_are_refused_whole(service, leases, fields, field, words):
    """The answer names the field, and nothing of the call was applied."""
    epoch, (first, second) = await leased(service, 2, 2)
    assert (first, second) == (1, 2)
    error, info, found = await refused(service.stub.AckMessages(ack(epoch, *leases, entries=[0, 1], **fields)))
    assert info.reason == "INVALID_INPUT"
    assert found["BadRequest"].field_violations[0].field == field
    assert words in error.details()
    assert (await stats_of(service)).leased_count == 4


async def test_a_call_ends_no_more_than_a_batch(service):
    """The limit of a batch counts named and unnamed positions, since both take the same time."""
    epoch, (first, second, third) = await leased(service, 2, 2, 3)
    for request in (
        ack(epoch, whole(first, 2), whole(second, 2), whole(third, 3), whole(third, 3)),
        ack(epoch, some(first, 2), whole(second, 8), entries=[0, 1]),
    ):
        _, info, _ = await refused(service.stub.AckMessages(request))
        assert (info.reason, info.metadata["limit"], info.metadata["count"]) == ("BATCH_TOO_LARGE", "9", "10")
    assert (await stats_of(service)).leased_count == 7


async def test_an_older_epoch_is_fenced(service):
    """A fenced call applies none of its acks."""
    epoch, (first, second) = await leased(service, 2, 2)
    await opened(service)
    _, info, _ = await refused(service.stub.AckMessages(ack(epoch, whole(first, 2), whole(second, 2))))
    assert info.reason == "FENCED"


async def test_a_wrong_lease_id_acknowledges_nothing_of_another_lease(service):
    """A lease acknowledges only what it handed out, until ten minutes after its end, alone or among others."""
    epoch, (first, second) = await leased(service, 2, 2)
    wrong = ack(epoch, some(first, 3), whole(first, 3), entries=[0, 2, 3])
    alone = pb.AckMessagesRequest(tracker=REF, epoch=epoch, lease_id=second, ledger_ids=[1, 1], entry_ids=[1, 3])
    answer = await service.stub.AckMessages(wrong)
    assert (answer.acked_counts, answer.stale_offsets) == ([1, 0], [1, 2])
    service.clock.advance(30_000)
    assert (await stats_of(service)).lease_expired_count == 3
    answer = await service.stub.AckMessages(alone)
    assert (answer.acked_count, answer.stale_offsets) == (1, [0])
    service.clock.advance(600_000)
    late = pb.AckMessagesRequest(tracker=REF, epoch=epoch, lease_id=second, ledger_ids=[1], entry_ids=[2])
    assert (await service.stub.AckMessages(late)).stale_offsets == [0]
    assert (await stats_of(service)).pending_count == 2
