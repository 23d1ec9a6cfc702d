"""Tests that threads that append at the same time share few syncs."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.entry.interceptor_names import load_interceptors
from delayed_tracker.ledger.entry.interceptors import broker_metadata_of
from delayed_tracker.ledger.local.errors import AppendFailed, TopicTerminated
from delayed_tracker.ledger.local.files.disk import OpenFile
from delayed_tracker.ledger.local.group_commit import GroupCommit
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.ledger.local.rollover import RolloverLimits
from tests.ledger.local.disks import TOPIC, FailingDisk, QuickDisk, stored


class CountingDisk(QuickDisk):
    """Disk that counts syncs of logs. The first sync waits until the test releases it."""

    def __init__(self) -> None:
        self.syncs = 0
        self.begun = threading.Event()
        self.go_on = threading.Event()

    def sync(self, file: OpenFile) -> None:
        if file.path.suffix == ".log" and file.path.stat().st_size > 1024:
            self.syncs += 1
            self.begun.set()
            assert self.go_on.wait(30)


def test_who_comes_during_a_sync_shares_the_next(tmp_path):
    """The first of 101 appends has a sync of its own, all others share one, and each gets its own position."""
    disk = CountingDisk()
    with open_writer(tmp_path, TOPIC, now_ms=1, disk=disk) as writer, ThreadPoolExecutor(101) as threads:
        group = GroupCommit(writer, lambda: 7)
        first = threads.submit(group.append, b"0")
        assert disk.begun.wait(30)
        others = {b"%d" % number: group.submit(b"%d" % number) for number in range(1, 51)}
        commits = [threads.submit(group.commit) for _ in range(50)]
        disk.go_on.set()
        assert first.result() == Position(0, 0)
        for commit in commits:
            commit.result()
        answered = {payload: position.result(timeout=0) for payload, position in others.items()}
        assert disk.syncs == 2
    found = {payload: position for position, payload in stored(tmp_path)}
    assert found == {b"0": Position(0, 0), **answered}


def test_threads_append_at_the_same_time(tmp_path):
    """Every entry is stored once, at the position that its thread got, and in the order of its thread."""
    with open_writer(tmp_path, TOPIC, now_ms=1, disk=QuickDisk(), limits=RolloverLimits(entries_max=30)) as writer:
        group = GroupCommit(writer, lambda: 7)

        def append(thread: int) -> list[tuple[Position, bytes]]:
            payloads = [b"%d:%d" % (thread, number) for number in range(50)]
            return [(group.append(payload), payload) for payload in payloads]

        with ThreadPoolExecutor(8) as threads:
            answers = list(threads.map(append, range(8)))
    assert sorted(row for answer in answers for row in answer) == stored(tmp_path)
    assert all(answer == sorted(answer) for answer in answers)


def test_the_clock_and_the_number_of_messages_reach_the_entry(tmp_path):
    """The time and the number of messages that the caller passes reach the entry."""
    interceptors = load_interceptors(["index", "broker-timestamp"])
    with open_writer(tmp_path, TOPIC, now_ms=1, interceptors=interceptors, disk=QuickDisk()) as writer:
        GroupCommit(writer, lambda: 77).append(b"a", num_messages=5)
    frame = broker_metadata_of(stored(tmp_path)[0][1])
    assert (frame.broker_timestamp, frame.index) == (77, 4)


def test_entries_of_a_full_ledger_are_stored_although_the_sync_behind_them_fails(tmp_path):
    """Their appenders need not append them again."""
    disk = FailingDisk()
    with open_writer(tmp_path, TOPIC, now_ms=1, disk=disk, limits=RolloverLimits(entries_max=2)) as writer:
        group = GroupCommit(writer, lambda: 7)
        waiting = [group.submit(b"%d" % number) for number in range(3)]
        syncs: list[Path] = []

        def second_of_new_ledger(step: str, path: Path) -> bool:
            """Return True for the sync of its entries; the first one is that of its header."""
            syncs.extend([path] if (step, path.name) == ("sync", "1.log") else [])
            return len(syncs) == 2

        disk.refuses = second_of_new_ledger
        group.commit()
        assert [position.result() for position in waiting[:2]] == [Position(0, 0), Position(0, 1)]
        with pytest.raises(AppendFailed):
            waiting[2].result()
        disk.refuses = lambda _step, _path: False
    assert [payload for _, payload in stored(tmp_path)] == [b"0", b"1"]


def test_an_error_reaches_those_whom_it_concerns(tmp_path):
    """Entries stored before the disk was full have positions, and the others raise and can be appended again."""
    disk = FailingDisk()
    with open_writer(tmp_path, TOPIC, now_ms=1, disk=disk, limits=RolloverLimits(entries_max=2)) as writer:
        group = GroupCommit(writer, lambda: 7)
        waiting = [group.submit(b"%d" % number) for number in range(3)]
        disk.refuses = lambda step, path: path.name == "1.log"
        group.commit()
        assert [position.result() for position in waiting[:2]] == [Position(0, 0), Position(0, 1)]
        with pytest.raises(AppendFailed):
            waiting[2].result()
        disk.refuses = lambda _step, _path: False
        assert group.append(b"2").entry_id == 0
        writer.terminate(now_ms=9)
        with pytest.raises(TopicTerminated):
            group.append(b"3")
        group.commit()
    assert [payload for _, payload in stored(tmp_path)] == [b"0", b"1", b"2"]
