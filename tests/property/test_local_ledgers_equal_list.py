"""A local managed ledger under random appends, failures, crashes and restarts, beside a plain list."""

import shutil
import tempfile
from pathlib import Path

from hypothesis import event, given
from hypothesis import strategies as st

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.entry.interceptor_names import load_interceptors
from delayed_tracker.ledger.entry.interceptors import broker_metadata_of
from delayed_tracker.ledger.local.errors import AppendFailed
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.ledger.local.rollover import RolloverLimits
from delayed_tracker.ledger.local.source import open_local_ledgers
from tests.ledger.local.disks import TOPIC, FailingDisk, stored

BATCHES = st.lists(st.tuples(st.binary(max_size=60), st.integers(-1, 5)), max_size=9)
STEPS = st.one_of(
    st.tuples(st.just("append"), BATCHES),
    st.tuples(st.just("flush"), st.none()),
    st.tuples(st.just("fail"), st.tuples(st.integers(0, 25), BATCHES)),
    st.tuples(st.just("kill"), st.binary(max_size=80)),
    st.tuples(st.just("close"), st.none()),
    st.tuples(st.just("roll"), st.none()),
    st.tuples(st.just("wait"), st.integers(-50, 80)),
)
LIMITS = RolloverLimits(entries_max=6, bytes_max=150, age_ms_max=100)


class Topic:
    """The writer, and lists of the entries that it acknowledged and of those that may be there."""

    def __init__(self, directory: Path, names: list[str]) -> None:
        self.directory = directory
        self.names = names
        self.now_ms = 1_000
        self.disk = FailingDisk()
        self.durable: list[tuple[Position, bytes, int]] = []
        self.waiting: list[tuple[Position, bytes, int]] = []
        self.open()

    def open(self) -> None:
        self.writer = open_writer(
            self.directory,
            TOPIC,
            now_ms=self.now_ms,
            interceptors=load_interceptors(self.names),
            limits=LIMITS,
            disk=self.disk,
        )

    def append(self, batch: list[tuple[bytes, int]]) -> None:
        payloads, counts = [payload for payload, _ in batch], [count for _, count in batch]
        positions = self.writer.append_many(payloads, now_ms=self.now_ms, num_messages=counts)
        self.waiting += zip(positions, payloads, counts, strict=True)
        last = self.writer.last
        self.settle([row for row in self.waiting if last is not None and row[0] <= last])

    def settle(self, stored_rows: list[tuple[Position, bytes, int]]) -> None:
        self.durable += stored_rows
        self.waiting = self.waiting[len(stored_rows) :]

    def flush(self, _: None) -> None:
        self.writer.flush()
        self.settle(self.waiting)

    def fail(self, what: tuple[int, list[tuple[bytes, int]]]) -> None:
        steps_before, batch = what
        nth = self.disk.steps + steps_before
        # A full disk still allows truncation.
        self.disk.refuses = lambda step, _path: self.disk.steps > nth and step != "truncate"
        try:
            self.append(batch)
            self.flush(None)
        except AppendFailed as error:
            event("an append failed")
            self.durable += [row for row in self.waiting if error.durable is not None and row[0] <= error.durable]
            self.durable += [(position, *row) for position, row in zip(error.stored, batch, strict=False)]
            self.waiting = []
        finally:
            self.disk.refuses = lambda _step, _path: False

    def kill(self, torn: bytes) -> None:
        """Kill the process; the last write is cut off at some byte, or followed by garbage."""
        self.writer._lock.release()
        ledger = self.writer._ledger
        if ledger is not None:
            with ledger.log.path.open("r+b") as log:
                log.truncate(max(ledger.durable.end, log.seek(0, 2) - len(torn)))
                log.seek(0, 2)
                log.write(torn[: len(torn) // 2])
        self.open()
        found = stored(self.directory)
        assert len(found) >= len(self.durable)
        self.settle(self.waiting[: len(found) - len(self.durable)])
        self.waiting = []

    def close(self, _: None) -> None:
        self.writer.close(now_ms=self.now_ms)
        self.settle(self.waiting)
        self.open()

    def roll(self, _: None) -> None:
        self.writer.roll_over(now_ms=self.now_ms)
        self.settle(self.waiting)

    def wait(self, ms: int) -> None:
        self.now_ms += ms

    def check(self) -> None:
        """Check that a reader gets the acknowledged entries, with indexes that follow from the messages before them."""
        self.writer.check()
        found = stored(self.directory)
        assert [position for position, _ in found] == [position for position, _, _ in self.durable]
        assert self.writer.last == (found[-1][0] if found else None)
        index = -1
        for (_, entry), (_, payload, count) in zip(found, self.durable, strict=True):
            if count <= 0 or not self.names:
                assert entry == payload
                continue
            index += count
            frame = broker_metadata_of(entry)
            assert frame.index == index
            assert entry[6 + frame.ByteSize() :] == payload

    def check_ledgers(self) -> None:
        """Check that limits hold, ids ascend, and sizes are known without reading."""
        with open_local_ledgers(self.directory) as source:
            log = source.topic_log(TOPIC)
        ids = [ledger.ledger_id for ledger in log.ledgers]
        assert ids == sorted(set(ids))
        assert log.entry_count == len(self.durable)
        for ledger in log.ledgers:
            read = ledger.read(0, ledger.last_entry_id).entries
            assert len(read) <= LIMITS.entries_max
            assert ledger.payload_bytes == read.payload_bytes


@given(names=st.sampled_from([[], ["index", "broker-timestamp"]]), steps=st.lists(STEPS, max_size=25))
def test_a_local_ledger_is_a_list_that_survives(names, steps):
    """After every step a reader gets exactly the acknowledged entries."""
    directory = Path(tempfile.mkdtemp())
    try:
        topic = Topic(directory, names)
        for kind, argument in steps:
            getattr(topic, kind)(argument)
            topic.check()
        topic.close(None)
        topic.check()
        topic.check_ledgers()
        topic.writer.close()
    finally:
        shutil.rmtree(directory)
