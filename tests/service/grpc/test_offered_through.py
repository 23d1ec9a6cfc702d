"""The dispatcher's claim: how far it has offered, and from where a dispatcher that opens the tracker offers again."""

import grpc
import pytest

from delayed_tracker.storage.memory_log import MemoryAddLog
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.imports import imported, requests, snapshot
from tests.service.harness.rpc import REF, add, opened, refused
from tests.service.harness.shell import running_service, settle


def at(ledger_id: int, entry_id: int = 0) -> pb.Position:
    return pb.Position(ledger_id=ledger_id, entry_id=entry_id)


def claiming(epoch: int, claim: pb.Position | None, *rows) -> pb.AddMessagesRequest:
    request = add(epoch, *rows)
    if claim is not None:
        request.offered_through.CopyFrom(claim)
    return request


@pytest.fixture
async def service():
    async with running_service(add_log=MemoryAddLog()) as running:
        yield running


async def replay_from(service, **kwargs) -> pb.Position | None:
    """Open the tracker and return from where that tells to replay."""
    answer = await service.stub.OpenTracker(pb.OpenTrackerRequest(tracker=REF, owner="tests", **kwargs))
    return answer.replay_from if answer.HasField("replay_from") else None


async def test_a_claim_is_answered_and_moves_the_replay(service):
    """The highest claim is in force, a lower one is ignored, and the next open replays behind it."""
    epoch = await opened(service)
    now = service.clock.now_ms()
    unclaimed = await service.stub.AddMessages(add(epoch, (now + 9_000, 7, 0)))
    assert not unclaimed.HasField("offered_through")
    answer = await service.stub.AddMessages(claiming(epoch, at(7, 4), (now + 9_000, 7, 4)))
    assert (answer.added_count, answer.offered_through) == (1, at(7, 4))
    assert (await service.stub.AddMessages(claiming(epoch, at(7, 2), (now + 9_000, 7, 2)))).offered_through == at(7, 4)
    assert (await service.stub.AddMessages(add(epoch, (now + 9_000, 7, 5)))).offered_through == at(7, 4)
    assert await replay_from(service) == at(7, 5)
    assert await replay_from(service, mark_delete=at(9, 1)) == at(9, 2)


async def test_a_claim_needs_no_rows(service):
    """A request without positions carries a claim; entry -1 is before the first entry of its ledger."""
    epoch = await opened(service)
    assert (await service.stub.AddMessages(claiming(epoch, at(8, -1)))).offered_through == at(8, -1)
    assert await replay_from(service) == at(8, 0)


async def test_a_stream_carries_claims(service):
    """Each request of a stream may have a claim, and each answer has the one in force."""
    epoch = await opened(service)
    now = service.clock.now_ms()
    call = service.stub.AddMessagesStream()
    answers = []
    for claim in (at(7, 1), None, at(7, 3)):
        await call.write(pb.AddMessagesStreamRequest(add=claiming(epoch, claim, (now + 9_000, 7, 1))))
        answers.append((await call.read()).added)
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert [answer.offered_through for answer in answers] == [at(7, 1), at(7, 1), at(7, 3)]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        (at(-1, -1), "offered_through.ledger_id"),
        (at(1, -2), "offered_through.entry_id"),
        (at(1, 2**32), "offered_through.entry_id"),
    ],
)
async def test_a_wrong_claim_is_refused_with_its_rows(service, wrong, field):
    """A claim that no entry can have names its field, and nothing of the request is applied."""
    epoch = await opened(service)
    error, _, found = await refused(service.stub.AddMessages(claiming(epoch, wrong, (2**62, 7, 0))))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert [violation.field for violation in found["BadRequest"].field_violations] == [field]
    contains = pb.ContainsMessagesRequest(tracker=REF, ledger_ids=[7], entry_ids=[0])
    assert not (await service.stub.ContainsMessages(contains)).tracked_offsets
    assert await replay_from(service) is None


async def test_a_claim_ends_with_a_clear_and_a_reset(service):
    """After a clear, and after a reset of the cursor, the dispatcher offers everything again."""
    epoch = await opened(service)
    await service.stub.AddMessages(claiming(epoch, at(7, 4)))
    cleared = await service.stub.ClearMessages(pb.ClearMessagesRequest(tracker=REF, epoch=epoch))
    assert await replay_from(service) is None
    epoch = cleared.epoch + 1
    await service.stub.AddMessages(claiming(epoch, at(7, 4)))
    await service.stub.ResetCursor(pb.ResetCursorRequest(tracker=REF, epoch=epoch, mark_delete=at(3, 0)))
    assert await replay_from(service) == at(3, 1)


async def test_without_an_add_log_there_are_no_claims():
    """Adds that are not durable keep no claim: the replay begins behind mark-delete."""
    async with running_service() as service:
        epoch = await opened(service)
        assert not (await service.stub.AddMessages(claiming(epoch, at(7, 4)))).HasField("offered_through")
        assert await replay_from(service) is None
        far = service.clock.now_ms() + 1_000_000
        answer = await imported(service, requests(snapshot((far, 10, 0)), offered_through=(10, 0)))
        assert not answer.HasField("replay_from")


async def test_an_import_sets_the_claim(service):
    """The claim of an import takes the place of the one before, also a lower one; without one there is none."""
    epoch = await opened(service)
    far = service.clock.now_ms() + 1_000_000
    await service.stub.AddMessages(claiming(epoch, at(20, 0)))
    answer = await imported(service, requests(snapshot((far, 10, 0)), mark_delete=(2, 0), offered_through=(10, 3)))
    assert answer.replay_from == await replay_from(service) == at(10, 4)
    answer = await imported(service, requests(snapshot((far, 10, 0)), mark_delete=(12, 0), offered_through=(10, 3)))
    assert answer.replay_from == at(12, 1)
    answer = await imported(service, requests(snapshot((far, 10, 0))))
    assert answer.replay_from == await replay_from(service) == at(12, 1)


async def test_an_import_with_a_wrong_claim_is_refused(service):
    """The refusal names the field, and the claim of before stays."""
    epoch = await opened(service)
    await service.stub.AddMessages(claiming(epoch, at(20, 0)))
    wrong = requests(snapshot((2**61, 10, 0)))
    wrong[0].header.offered_through.CopyFrom(at(-1, 0))
    _, _, found = await refused(imported(service, wrong))
    assert [each.field for each in found["BadRequest"].field_violations] == ["offered_through.ledger_id"]
    assert await replay_from(service) == at(20, 1)


async def test_claims_do_not_rise_while_a_replay_is_required(service):
    """A dispatcher that does not know of a lost snapshot claims in vain; the next open replays from before it."""
    epoch = await opened(service)
    now = service.clock.now_ms()
    rows = [(now + 1_000_000, 7, entry) for entry in range(5)]
    await service.stub.AddMessages(claiming(epoch, at(8, 0), *rows, (now + 1_000_000, 8, 0)))
    await settle()
    (lost,) = await service.storage.inner.list_bucket_snapshots(REF.topic, REF.subscription)
    await service.storage.inner.delete_bucket_snapshot(lost.bucket_id)
    service.clock.advance(1_000_000)
    await settle()
    stats = await service.stub.GetTrackerStats(pb.GetTrackerStatsRequest(tracker=REF))
    assert stats.replay_required
    answer = await service.stub.AddMessages(claiming(epoch, at(9, 0), (now + 9_000_000, 9, 0)))
    assert answer.offered_through == at(7, -1)
    assert await replay_from(service) == at(7, 0)
    answer = await service.stub.AddMessages(claiming(epoch + 1, at(9, 0)))
    assert answer.offered_through == at(9, 0)
