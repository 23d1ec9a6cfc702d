"""Peeking, explaining, histograms and verification: their answers, and that they change nothing."""

import grpc
import pytest

from delayed_tracker.cli.terminal.output import instant
from delayed_tracker.core.values.columns import INT63_MAX
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.service.queries.explain import in_two_units
from delayed_tracker.service.queries.histogram import Bars
from delayed_tracker.storage.errors import SnapshotCorrupt, SnapshotNotFound, StorageUnavailable
from delayed_tracker.v1 import tracker_pb2 as pb
from tests.service.harness.rpc import REF, add, opened, poll, refused, stats_of
from tests.service.harness.shell import Gate, elapse, failing, settle, until

FAR_MS = 1_000_000
COUNT = 12


@pytest.fixture
async def epoch(service):
    return await opened(service)


@pytest.fixture
async def far(service, epoch):
    """Add twelve positions 500 ms apart in a stored bucket of six segments, and one more in memory."""
    far = service.clock.now_ms() + FAR_MS
    await service.stub.AddMessages(add(epoch, *((far + 500 * entry, 1, entry) for entry in range(COUNT))))
    await service.stub.SealBucket(pb.SealBucketRequest(tracker=REF, epoch=epoch))
    await settle()
    await service.stub.AddMessages(add(epoch, (far + 250, 2, 0)))
    return far


async def peeked(service, **kwargs):
    request = {"tracker": REF, "max_messages": 100} | kwargs
    answer = await service.stub.PeekMessages(pb.PeekMessagesRequest(**request))
    return list(zip(answer.deliver_at_ms, answer.ledger_ids, answer.entry_ids, strict=True)), answer


async def explained(service, ledger_id, entry_id):
    position = pb.Position(ledger_id=ledger_id, entry_id=entry_id)
    return await service.stub.ExplainMessage(pb.ExplainMessageRequest(tracker=REF, position=position))


async def histogram(service, from_ms, step_ms, bar_count):
    return await service.stub.DeliveryHistogram(
        pb.DeliveryHistogramRequest(tracker=REF, from_ms=from_ms, step_ms=step_ms, bar_count=bar_count)
    )


def all_rows(far):
    return sorted([(far + 500 * entry, 1, entry) for entry in range(COUNT)] + [(far + 250, 2, 0)])


async def test_a_peek_sees_memory_and_disk_alike(service, far):
    """A peek returns any range in delivery order, marks a truncated answer, and loads nothing."""
    before = await stats_of(service)
    rows = all_rows(far)
    found, answer = await peeked(service)
    assert (found, answer.truncated, answer.leased_offsets) == (rows, False, [])
    for count in range(1, len(rows) + 1):
        found, answer = await peeked(service, max_messages=count)
        assert (found, answer.truncated) == (rows[:count], count < len(rows))
    for first in range(far - 1, far + 6_000, 250):
        found, _ = await peeked(service, from_ms=first, until_ms=first + 1_001, max_messages=5)
        assert found == [row for row in rows if first <= row[0] <= first + 1_000][:5]
    assert await stats_of(service) == before


async def test_a_peek_leaves_out_what_is_gone_and_marks_what_is_leased(service, epoch, far):
    """Cancelled positions of unread segments are not shown; leased ones are, with their deadline."""
    stub, now = service.stub, service.clock.now_ms()
    await stub.CancelMessages(pb.CancelMessagesRequest(tracker=REF, epoch=epoch, ledger_ids=[1], entry_ids=[7]))
    await stub.AddMessages(add(epoch, (now + 1, 3, 0), (now + 2, 3, 1)))
    service.clock.advance(1)
    assert (await stub.PollScheduledMessages(poll(epoch))).entry_ids == [0]
    found, answer = await peeked(service)
    assert found == [(now + 1, 3, 0), (now + 2, 3, 1), *(row for row in all_rows(far) if row[1:] != (1, 7))]
    assert answer.leased_offsets == [0]


async def test_a_peek_reads_no_further_than_it_must(service, far):
    """A peek for a few messages reads only the first segments."""
    service.storage.calls.clear()
    await peeked(service, max_messages=1)
    assert service.storage.calls == ["get_bucket_snapshot_segments"]
    service.storage.calls.clear()
    await peeked(service, until_ms=far)
    assert service.storage.calls == []


async def test_a_peek_while_a_load_fails(service, far):
    """A peek reads the segments itself and shows everything, even if a load of the tracker fails."""
    storage, clock = service.storage, service.clock
    storage.before["get_bucket_snapshot_segments"] = gate = Gate()
    clock.advance(FAR_MS - 1_000)
    await until(lambda: gate.held_count == 1)
    storage.before["get_bucket_snapshot_segments"] = failing()
    found, _ = await peeked(service)
    assert found == all_rows(far)
    storage.after["get_bucket_snapshot_segments"] = failing(StorageUnavailable("away"))
    gate.open()
    await elapse(clock, 500)
    found, _ = await peeked(service)
    assert found == all_rows(far)


async def test_a_peek_of_a_damaged_bucket_says_so_and_drops_nothing(service, far):
    """The peek fails with DATA_LOSS; the bucket stays tracked, and the next peek may succeed."""
    service.storage.before["get_bucket_snapshot_segments"] = failing(*[SnapshotCorrupt("a flipped byte")] * 3)
    call = service.stub.PeekMessages(pb.PeekMessagesRequest(tracker=REF, max_messages=100))
    error, info, _ = await refused(call)
    assert (error.code(), info.reason) == (grpc.StatusCode.DATA_LOSS, "SNAPSHOT_CORRUPT")
    found, _ = await peeked(service)
    assert found == all_rows(far)


async def test_a_peek_of_a_bucket_that_is_cleared_meanwhile_looks_again(service, epoch, far):
    """If the snapshot is deleted before the peek reads it, the answer is that of the cleared tracker."""
    service.storage.before["get_bucket_snapshot_segments"] = gate = Gate()
    peeking = service.stub.PeekMessages(pb.PeekMessagesRequest(tracker=REF, max_messages=100))
    await until(lambda: gate.held_count == 1)
    await service.stub.ClearMessages(pb.ClearMessagesRequest(tracker=REF, epoch=epoch))
    gate.open()
    assert (await peeking).deliver_at_ms == []


async def test_a_peek_honours_its_deadline(service, far):
    """The caller is answered by its deadline, even if the storage does not answer."""
    service.storage.before["get_bucket_snapshot_segments"] = Gate()
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await service.stub.PeekMessages(pb.PeekMessagesRequest(tracker=REF, max_messages=5), timeout=0.1)
    assert raised.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await until(lambda: service.registry.calls.open_count == 0)


async def test_positions_are_explained_wherever_they_are(service, epoch, far):
    """The answer has place, deadline, time of delivery, bucket and segment, and a sentence for people."""
    stub, clock = service.stub, service.clock
    unknown = await explained(service, 9, 9)
    assert (unknown.place, unknown.HasField("deliver_at_ms")) == (pb.MESSAGE_PLACE_NOT_TRACKED, False)
    assert "not tracked" in unknown.explanation
    memory = await explained(service, 2, 0)
    assert (memory.place, memory.deliver_at_ms) == (pb.MESSAGE_PLACE_MEMORY, far + 250)
    assert (memory.available_at_ms, memory.HasField("bucket_id")) == (far + 250, False)
    assert "16 min 40 s" in memory.explanation
    assert instant(memory.deliver_at_ms) in memory.explanation, "as the command line writes it elsewhere"
    disk = await explained(service, 1, 7)
    assert (disk.place, disk.deliver_at_ms, disk.bucket_id) == (pb.MESSAGE_PLACE_UNLOADED_SEGMENT, far + 3_500, 1)
    assert disk.HasField("segment")
    assert f"segment {disk.segment}" in disk.explanation
    await elapse(clock, FAR_MS)
    assert (await explained(service, 1, 0)).place == pb.MESSAGE_PLACE_LOADED_SEGMENT
    assert "the next poll" in (await explained(service, 1, 0)).explanation
    lease = await stub.PollScheduledMessages(poll(epoch, lease_ms=5_000))
    leased = await explained(service, 1, 0)
    assert (leased.place, leased.lease_id) == (pb.MESSAGE_PLACE_LEASED, lease.lease_id)
    assert leased.available_at_ms == lease.lease_expires_at_ms
    assert f"lease {lease.lease_id}" in leased.explanation
    mark_delete = pb.Position(ledger_id=1, entry_id=0)
    await stub.AdvanceMarkDelete(pb.AdvanceMarkDeleteRequest(tracker=REF, epoch=epoch, mark_delete=mark_delete))
    acknowledged = await explained(service, 1, 0)
    assert acknowledged.place == pb.MESSAGE_PLACE_ACKNOWLEDGED
    assert "mark-delete is at 1:0" in acknowledged.explanation


@pytest.mark.parametrize(
    ("duration_ms", "shown"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (60_000, "1 min"),
        (61_000, "1 min 1 s"),
        (38_400_999, "10 h 40 min"),
        (86_400_000, "1 d"),
    ],
)
def test_a_wait_has_one_form(duration_ms, shown):
    """The sentence and the table below it show a duration in the same form."""
    assert in_two_units(duration_ms) == shown


async def test_a_position_whose_load_hangs_is_explained(service, far):
    """A position is explained as being read when its deadline has passed and its segment is still loading."""
    storage, clock = service.storage, service.clock
    storage.before["get_bucket_snapshot_segments"] = gate = Gate()
    clock.advance(FAR_MS)
    await until(lambda: gate.held_count == 1)
    storage.before["get_bucket_snapshot_segments"] = failing()
    loading = await explained(service, 1, 0)
    assert (loading.place, loading.deliver_at_ms) == (pb.MESSAGE_PLACE_LOADING_SEGMENT, far)
    assert "It is due" in loading.explanation
    gate.open()


async def test_a_position_in_a_damaged_snapshot_is_explained(service, far):
    """The explanation states that the snapshot cannot be read, instead of failing."""
    service.storage.before["get_bucket_snapshot_metadata"] = failing(SnapshotNotFound("there is no snapshot 1."))
    lost = await explained(service, 1, 7)
    assert (lost.place, lost.HasField("deliver_at_ms")) == (pb.MESSAGE_PLACE_UNLOADED_SEGMENT, False)
    assert "cannot be read" in lost.explanation


async def test_a_histogram_accounts_for_everything(service, epoch, far):
    """Before, bars and after add up to all tracked indexes for any bars; indexes in memory are counted exactly."""
    for from_ms, step_ms, bar_count in ((0, 1, 1), (far, 500, 12), (far + 100, 333, 7), (far - 10_000, 100_000, 3)):
        found = await histogram(service, from_ms, step_ms, bar_count)
        assert len(found.counts) == bar_count
        assert found.before_count + sum(found.counts) + found.after_count == COUNT + 1
        assert found.estimated_count <= COUNT
    whole = await histogram(service, far, 6_000, 1)
    assert (whole.before_count, whole.counts, whole.after_count, whole.estimated_count) == (0, [COUNT + 1], 0, 0)
    await service.stub.CancelMessages(
        pb.CancelMessagesRequest(tracker=REF, epoch=epoch, ledger_ids=[1] * 6, entry_ids=range(6))
    )
    found = await histogram(service, far, 1_000, 6)
    assert found.before_count + sum(found.counts) + found.after_count == COUNT + 1 - 6
    assert found.estimated_count == 6
    assert "get_bucket_snapshot_segments" not in service.storage.calls


@pytest.mark.parametrize(
    ("from_ms", "step_ms", "count", "field", "remedy"),
    [
        (INT63_MAX, 1, 24, "from_ms", f"give at most {INT63_MAX - 24}: 24 bars follow"),
        (INT63_MAX - 23, 1, 24, "from_ms", f"give at most {INT63_MAX - 24}: 24 bars follow"),
        (0, INT63_MAX, 2, "step_ms", f"give 1 to {INT63_MAX // 2} ms, so that 2 bars end in range"),
        (0, 0, 2, "step_ms", f"give 1 to {INT63_MAX // 2} ms"),
    ],
)
def test_bars_beyond_the_range_of_time_are_refused_with_what_fits(from_ms, step_ms, count, field, remedy):
    """The remedy proposes only values that are possible."""
    with pytest.raises(InvalidInput) as refused:
        Bars(from_ms, step_ms, count)
    assert refused.value.field == field
    assert remedy in refused.value.message


def test_the_last_bars_of_time_can_be_asked_for():
    """The value that the remedy proposes is accepted."""
    assert Bars(INT63_MAX - 24, 1, 24).edges[-1] == INT63_MAX
