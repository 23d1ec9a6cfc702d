"""Tests of writing to a topic: order, rollover, durability, and full disks."""

from dataclasses import replace

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.bookkeeper.entry_logs import open_entry_logs
from delayed_tracker.ledger.entry.interceptor_names import load_interceptors
from delayed_tracker.ledger.entry.interceptors import BrokerEntryMetadataInterceptor, broker_metadata_of
from delayed_tracker.ledger.local import opening
from delayed_tracker.ledger.local.errors import AppendFailed, LedgerInUse, TopicTerminated, WriterClosed
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.ledger.local.rollover import RolloverLimits
from delayed_tracker.ledger.local.source import open_local_ledgers
from delayed_tracker.ledger.metadata.digest import LedgerDigest
from tests.ledger.local.disks import TOPIC, FailingDisk, QuickDisk, stored

HEADERS = bytes.fromhex("0e017cc828cb000000150a02703110071880d095ffbc319801e0a499ffbc3168656c6c6f")
FRAMED = bytes.fromhex("0e020000000908fbd095ffbc311029") + HEADERS


def writer_of(directory, topic=TOPIC, *, disk=None, names=(), now_ms=1, **options):
    return open_writer(
        directory, topic, now_ms=now_ms, disk=disk or QuickDisk(), interceptors=load_interceptors(names), **options
    )


def positions(*pairs: tuple[int, int]) -> list[Position]:
    return [Position(*pair) for pair in pairs]


def indexes(directory) -> list[int | None]:
    metadata = [broker_metadata_of(payload) for _, payload in stored(directory)]
    return [None if frame is None else frame.index for frame in metadata]


def test_entries_come_back_as_they_were_appended(tmp_path):
    """Entries come back in order at the returned positions, including empty ones."""
    payloads = [b"a", b"", b"ccc" * 1000]
    with writer_of(tmp_path) as writer:
        assert list(writer.append_many(payloads, now_ms=1)) == positions((0, 0), (0, 1), (0, 2))
        assert writer.flush() == Position(0, 2)
    assert stored(tmp_path) == list(zip(positions((0, 0), (0, 1), (0, 2)), payloads, strict=True))


def test_readers_see_what_is_durable(tmp_path):
    """Readers find the entries that were durable when they opened the topic, and no later ones."""
    with writer_of(tmp_path) as writer:
        writer.append_many([b"a"], now_ms=1)
        assert stored(tmp_path) == []
        writer.flush()
        assert stored(tmp_path) == [(Position(0, 0), b"a")]
        with open_local_ledgers(tmp_path) as source:
            log = source.topic_log(TOPIC)
        writer.append_many([b"b"], now_ms=1)
        writer.flush()
        assert (log.entry_count, log.ledgers[0].payload_bytes, log.ledgers[0].closed) == (1, 1, False)
        assert stored(tmp_path)[1:] == [(Position(0, 1), b"b")]


def test_pulsars_frame_byte_for_byte(tmp_path):
    """The frame is Pulsar's byte for byte: broker timestamp 1700000000123 and index 41 before the client's bytes."""
    with writer_of(tmp_path, names=["AppendBrokerTimestampMetadataInterceptor", "index"]) as writer:
        writer.append_many([HEADERS] * 2, now_ms=1_700_000_000_123, num_messages=[41, 1])
    assert [payload for _, payload in stored(tmp_path)][1] == FRAMED


def test_no_interceptors_no_frame(tmp_path):
    """Entries have no frame without interceptors or if they count as no message; the latter take no number."""
    with writer_of(tmp_path) as writer:
        writer.append_many([HEADERS], now_ms=1)
    with writer_of(tmp_path, names=["index"]) as writer:
        writer.append_many([HEADERS] * 4, now_ms=1, num_messages=[1, 0, -1, 1])
    assert [payload == HEADERS for _, payload in stored(tmp_path)] == [True, False, True, True, False]
    assert indexes(tmp_path) == [None, 0, None, None, 1]


def test_the_index_survives_restarts(tmp_path):
    """The index survives restarts, a kill, and a run without interceptors."""
    with writer_of(tmp_path, names=["index"]) as writer:
        writer.append_many([b"a", b"b"], now_ms=1, num_messages=[3, 2])
    killed = writer_of(tmp_path, names=["index"])
    killed.append_many([b"c"], now_ms=1, num_messages=[4])
    killed.flush()
    killed._lock.release()
    with writer_of(tmp_path) as writer:
        writer.append_many([b"d"], now_ms=1)
    with writer_of(tmp_path, names=["index"]) as writer:
        writer.append_many([b"e"], now_ms=1)
    assert indexes(tmp_path) == [2, 4, 8, None, 9]


def test_the_index_survives_a_crash_behind_entries_without_one(tmp_path, monkeypatch):
    """After a crash, the index continues from the newest entry that has one, however far back."""
    monkeypatch.setattr(opening, "_ENTRIES_AT_ONCE", 3)
    for without in (0, 1, 3, 7):
        directory = tmp_path / str(without)
        killed = writer_of(directory, names=["index"])
        killed.append_many([b"a"] * (2 + without), now_ms=1, num_messages=[3, 2, *[0] * without])
        killed.flush()
        killed._lock.release()
        with writer_of(directory, names=["index"]) as writer:
            writer.append_many([b"b"], now_ms=1)
        assert indexes(directory) == [2, 4, *[None] * without, 5]


def test_ledgers_roll_over_by_entries(tmp_path):
    """Ledgers roll over by entries, also within one call."""
    with writer_of(tmp_path, limits=RolloverLimits(entries_max=2)) as writer:
        found = list(writer.append_many([b"a"] * 5, now_ms=1))
    assert found == positions((0, 0), (0, 1), (1, 0), (1, 1), (2, 0))
    assert [position for position, _ in stored(tmp_path)] == found


def test_ledgers_roll_over_by_bytes(tmp_path):
    """Ledgers roll over by payload bytes, and the entry that reaches the limit stays in the old ledger."""
    with writer_of(tmp_path, limits=RolloverLimits(bytes_max=10), names=["index"]) as writer:
        writer.append_many([b"12345678", b"9", b"1", b"", b"12345678901234567890", b"a"], now_ms=1)
    assert [position for position, _ in stored(tmp_path)] == positions((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0))


def test_ledgers_roll_over_by_age(tmp_path):
    """Ledgers roll over by age since the first append, and a clock that steps back has no effect."""
    with writer_of(tmp_path, limits=RolloverLimits(age_ms_max=100)) as writer:
        found = [*writer.append_many([b"a"], now_ms=1_000), *writer.append_many([b"b"], now_ms=900)]
        found += [*writer.append_many([b"c"], now_ms=1_099), *writer.append_many([b"d"], now_ms=1_100)]
        assert found == positions((0, 0), (0, 1), (0, 2), (1, 0))
        writer.roll_over(now_ms=1_101)
        assert list(writer.append_many([b"e"], now_ms=1_101)) == positions((2, 0))


def test_ledger_ids_are_unique_in_their_directory(tmp_path):
    """Two topics take ledger ids in turns, and no id is used twice after the file of ids is lost."""
    with writer_of(tmp_path) as one, writer_of(tmp_path, "persistent://lab/main/other") as other:
        found = [*one.append_many([b"a"], now_ms=1), *other.append_many([b"b"], now_ms=1)]
        one.roll_over(now_ms=1)
        (tmp_path / "ids").unlink()
        found += one.append_many([b"c"], now_ms=1)
    assert [position.ledger_id for position in found] == [0, 1, 2]
    (tmp_path / "ids").write_bytes(b"damaged")
    with writer_of(tmp_path) as writer:
        assert list(writer.append_many([b"d"], now_ms=1)) == positions((3, 0))


def test_a_second_writer_is_refused(tmp_path):
    """A second writer is refused, also in the same process, until the first is closed."""
    with writer_of(tmp_path), pytest.raises(LedgerInUse, match=r"this process writes to .*orders in .* already"):
        writer_of(tmp_path)
    writer_of(tmp_path).close()


def test_a_topic_that_was_terminated_takes_nothing_more(tmp_path):
    """A terminated topic accepts no entries; its end is stored, and terminating again changes nothing."""
    with writer_of(tmp_path) as writer:
        writer.append_many([b"a", b"b"], now_ms=1)
        assert writer.terminate(now_ms=2) == Position(0, 1) == writer.terminate(now_ms=3)
    with writer_of(tmp_path) as writer, pytest.raises(TopicTerminated, match="was terminated at 0:1"):
        writer.append_many([b"c"], now_ms=4)
    with open_local_ledgers(tmp_path) as source:
        assert source.topic_log(TOPIC).terminated_at == Position(0, 1)


def test_properties_are_kept(tmp_path):
    """Properties are stored beside the index of the interceptors, after unflushed entries were made durable."""
    with writer_of(tmp_path, names=["index"]) as writer:
        writer.append_many([b"a"], now_ms=1)
        writer.set_properties({"colour": "red"})
        assert writer.last == Position(0, 0)
    with open_local_ledgers(tmp_path) as source:
        assert source.topic_log(TOPIC).properties == {"colour": "red", "index": "0"}


def test_properties_that_cannot_be_stored_are_not_set(tmp_path):
    """Properties are not set if storing them fails, even if the disk accepted them before it failed."""
    for step in ("create", "write", "sync", "rename", "sync_directory"):
        disk = FailingDisk()
        with writer_of(tmp_path, disk=disk) as writer:
            disk.refuses = lambda kind, _path, step=step: kind == step
            with pytest.raises(OSError, match="No space left"):
                writer.set_properties({step: "set"})
            disk.refuses = lambda _kind, _path: False
        with open_local_ledgers(tmp_path) as source:
            assert source.topic_log(TOPIC).properties == {}


def test_a_closed_writer_says_so(tmp_path):
    """A closed writer refuses calls, and closing it again does nothing."""
    writer = writer_of(tmp_path)
    writer.close()
    writer.close()
    for call in (lambda: writer.append_many([b"a"], now_ms=1), writer.flush, lambda: writer.set_properties({})):
        with pytest.raises(WriterClosed, match="open the topic again"):
            call()


@pytest.mark.parametrize(
    ("options", "field"),
    [({"num_messages": [1]}, "num_messages"), ({"num_messages": [[1, 1]]}, "num_messages")],
)
def test_columns_of_another_length_are_refused(tmp_path, options, field):
    """Columns of another length are refused, and nothing is appended."""
    with writer_of(tmp_path) as writer, pytest.raises(InvalidInput) as error:
        writer.append_many([b"a", b"b"], now_ms=1, **options)
    assert error.value.field == field
    assert stored(tmp_path) == []


@pytest.mark.parametrize(
    "limits", [{"entries_max": 0}, {"entries_max": 2**32 + 1}, {"bytes_max": 0}, {"age_ms_max": 0}]
)
def test_limits_that_cannot_be_are_refused(limits):
    """An invalid limit is refused by its name."""
    with pytest.raises(InvalidInput) as error:
        RolloverLimits(**limits)
    assert [error.value.field] == list(limits)


def test_bookkeepers_own_layout(tmp_path):
    """A topic's directory is readable as BookKeeper entry logs, with correct digests and lengths."""
    payloads = [b"a" * size for size in (0, 1, 7, 8, 9, 300)]
    with writer_of(tmp_path, limits=RolloverLimits(entries_max=4)) as writer:
        writer.append_many(payloads, now_ms=1)
    with open_entry_logs([next((tmp_path / "topics").iterdir())]) as logs:
        read = [logs.read(0, 0, 3, LedgerDigest()), logs.read(1, 0, 1, LedgerDigest())]
        assert [part.entries.payload(row) for part in read for row in range(len(part.entries))] == payloads
        assert logs.records.length.tolist() == [0, 1, 8, 16, 9, 309]
        assert (logs.damage, logs.truncated) == ((), ())


FIRST, LOST, LATER = [b"1"] * 3, [b"2"] * 4, [b"3"] * 2
REFUSALS = [
    ("write", ".log"),
    ("write", ".index"),
    ("write", "confirmed"),
    ("sync", ".log"),
]


@pytest.mark.parametrize("truncates", [True, False])
@pytest.mark.parametrize(("step", "suffix"), REFUSALS)
def test_a_full_disk_loses_what_was_not_durable(tmp_path, step, suffix, truncates):
    """A full disk raises and loses unflushed entries, but the index has no gap and writing can continue later."""
    disk = FailingDisk()
    with writer_of(tmp_path, disk=disk, names=["index"]) as writer:
        writer.append_many(FIRST, now_ms=1)
        writer.flush()
        disk.refuses = lambda kind, path: (
            (kind, path.suffix or path.name)
            in {
                (step, suffix),
                ("truncate" if not truncates else "", ".log"),
            }
        )

        def append_and_flush() -> None:
            writer.append_many(LOST, now_ms=1)
            writer.flush()

        with pytest.raises(AppendFailed, match=r"No space left on device.*make room") as error:
            append_and_flush()
        assert error.value.durable == Position(0, 2)
        assert list(error.value.stored) == []
        assert len(stored(tmp_path)) == len(FIRST)
        disk.refuses = lambda _kind, _path: False
        writer.append_many(LATER, now_ms=1)
        assert writer.flush() == Position(1, 1)
    assert [payload[-1:] for _, payload in stored(tmp_path)] == FIRST + LATER
    assert indexes(tmp_path) == [0, 1, 2, 3, 4]


def test_every_step_of_a_rollover_may_fail(tmp_path):
    """If any step of a rollover fails, earlier entries stay and later ones are appended."""
    refused = 0
    while True:
        directory = tmp_path / str(refused)
        directory.mkdir()
        disk = FailingDisk()
        with writer_of(directory, disk=disk, names=["index"], limits=RolloverLimits(entries_max=2)) as writer:
            writer.append_many([b"a", b"b"], now_ms=1)
            nth = disk.steps + refused
            disk.refuses = lambda _kind, _path, disk=disk, nth=nth: disk.steps > nth
            failed = None
            try:
                writer.append_many([b"c", b"d", b"e"], now_ms=1)
                writer.flush()
            except AppendFailed as error:
                failed = error
            disk.refuses = lambda _kind, _path: False
            if failed is None:
                break
            done = [position for position, _ in stored(directory)]
            assert failed.durable == (done[-1] if done else None)
            assert set(failed.stored) <= set(done[2:])
            writer.append_many([b"c", b"d", b"e"][max(len(done) - 2, 0) :], now_ms=1)
            if not done:
                writer.append_many([b"x"], now_ms=1)
        found = [payload[-1:] for _, payload in stored(directory)]
        assert found == ([b"a", b"b", b"c", b"d", b"e"] if done else [b"c", b"d", b"e", b"x"])
        assert indexes(directory) == list(range(len(found)))
        refused += 1
    assert refused > 20


class Fickle(BrokerEntryMetadataInterceptor):
    """Interceptor that raises on request."""

    def __init__(self) -> None:
        self.raises = False

    def intercept(self, metadata, num_messages, *, now_ms):
        if self.raises:
            raise RuntimeError("no")
        return replace(metadata)


def test_an_interceptor_that_raises_loses_what_was_not_durable(tmp_path):
    """An interceptor that raises loses unflushed entries; the writer stays usable, and the index has no gap."""
    fickle = Fickle()
    index = load_interceptors(["index"])[0]
    with open_writer(tmp_path, TOPIC, now_ms=1, interceptors=[index, fickle], disk=QuickDisk()) as writer:
        writer.append_many([b"a"], now_ms=1)
        fickle.raises = True
        with pytest.raises(RuntimeError, match="no"):
            writer.append_many([b"b"], now_ms=1)
        fickle.raises = False
        writer.append_many([b"c"], now_ms=1)
    assert indexes(tmp_path) == [0]


def test_a_full_disk_at_opening_leaves_the_topic_as_it_was(tmp_path):
    """A disk that is full on opening leaves the topic unchanged for the next opening."""
    writer = writer_of(tmp_path)
    writer.append_many(FIRST, now_ms=1)
    writer.flush()
    writer._lock.release()
    for nth in range(20):
        disk = FailingDisk()
        disk.refuses = lambda _kind, _path, disk=disk, nth=nth: disk.steps > nth
        try:
            writer_of(tmp_path, disk=disk).close()
        except OSError:
            assert [payload for _, payload in stored(tmp_path)] == FIRST
        else:
            break
    assert nth > 3
    assert [payload for _, payload in stored(tmp_path)] == FIRST
