"""Tests of power cuts and kill -9 behind every step: acknowledged entries survive in order, and no others appear."""

import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from delayed_tracker.core.values.columns import Position
from delayed_tracker.ledger.entry.interceptor_names import load_interceptors
from delayed_tracker.ledger.entry.interceptors import broker_metadata_of
from delayed_tracker.ledger.errors import ErrorPolicy
from delayed_tracker.ledger.local.errors import LedgerDamaged
from delayed_tracker.ledger.local.files.layout import LedgerDirectory
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.ledger.local.rollover import RolloverLimits
from delayed_tracker.ledger.local.source import open_local_ledgers
from delayed_tracker.ledger.topic.topic_reader import OpenLedgers
from delayed_tracker.ledger.topic_name import TopicName
from tests.ledger.harness.log_files import flipped
from tests.ledger.local.disks import TOPIC, PowerCut, QuickDisk, RecordingDisk, stored

pytestmark = pytest.mark.long

LIMITS = RolloverLimits(entries_max=5)


def opened(directory: Path, disk=None, *, on_error=ErrorPolicy.FAIL):
    return open_writer(
        directory,
        TOPIC,
        now_ms=9,
        disk=disk or QuickDisk(),
        interceptors=load_interceptors(["index"]),
        limits=LIMITS,
        on_error=on_error,
    )


def payload(number: int) -> bytes:
    return b"%d " % number * (number % 7 + 1)


def run_and_note(directory: Path) -> tuple[RecordingDisk, list[tuple[int, int]], dict[int, Position]]:
    """Run a writer; return the disk's steps, the acknowledged entries after each step, and the positions of entries."""
    disk = RecordingDisk()
    acknowledged = [(0, 0)]
    where = {}
    number = 0
    for _ in range(2):
        with opened(directory, disk) as writer:
            for size in (1, 4, 2):
                for part in (1, size):
                    numbers = range(number, number + part)
                    positions = writer.append_many([payload(count) for count in numbers], now_ms=9)
                    where.update(zip(numbers, positions, strict=True))
                    number += part
                writer.flush()
                acknowledged.append((len(disk.steps), number))
    return disk, acknowledged, where


def acknowledged_after(step: int, acknowledged: list[tuple[int, int]]) -> int:
    return max(count for steps, count in acknowledged if steps <= step)


@pytest.mark.slow
@pytest.mark.parametrize("kept", [0.0, 0.7, 1.0])
def test_what_was_acknowledged_survives_a_power_cut_behind_any_step(tmp_path, kept):
    """Acknowledged entries survive a power cut behind any step, with torn writes, and the topic can be opened again."""
    written = tmp_path / "written"
    written.mkdir()
    disk, acknowledged, where = run_and_note(written)
    assert len(disk.steps) > 80
    for step in range(len(disk.steps) + 1):
        image = tmp_path / f"image-{step}"
        image.mkdir()
        PowerCut(written, kept=kept, seed=step).after(disk.steps[:step], image)
        least = acknowledged_after(step, acknowledged)
        if least and kept == 1.0:
            # After a kill, readers find everything that the process wrote.
            assert len(stored(image)) >= least
        with opened(image) as writer:
            found = stored(image)
            assert len(found) >= least
            assert [position for position, _ in found] == [where[number] for number in range(len(found))]
            writer.append_many([b"later"], now_ms=9)
        frames = [broker_metadata_of(entry) for _, entry in stored(image)]
        assert [frame.index for frame in frames] == list(range(len(found) + 1))
        bodies = [entry[6 + frame.ByteSize() :] for (_, entry), frame in zip(stored(image), frames, strict=True)]
        assert bodies == [payload(number) for number in range(len(found))] + [b"later"]
        ids = [position.ledger_id for position, _ in stored(image)]
        assert all(before <= after for before, after in pairwise(ids))
        assert ids[-1] not in ids[:-1]


@pytest.fixture
def killed(tmp_path):
    """Write a topic with a killed writer: three entries acknowledged with two syncs, two more in the log."""
    directory = tmp_path / "killed"
    directory.mkdir()
    writer = opened(directory)
    for count in (1, 2):
        writer.append_many([payload(number) for number in range(count)], now_ms=9)
        writer.flush()
    confirmed = LedgerDirectory(directory).topic(TopicName.parse(TOPIC)).log(0).stat().st_size
    writer.append_many([b"x" * 30, b"y" * 30], now_ms=9)
    writer._lock.release()
    return directory, confirmed


def log_of(directory: Path) -> Path:
    return LedgerDirectory(directory).topic(TopicName.parse(TOPIC)).log(0)


def test_a_torn_end_is_cut_off_and_reported(killed):
    """If the log ends at any byte, complete entries behind the acknowledged ones stay and the rest is cut off."""
    directory, confirmed = killed
    whole = log_of(directory).read_bytes()
    record = (len(whole) - confirmed) // 2
    for size in range(confirmed, len(whole) + 1):
        log_of(directory).write_bytes(whole[:size])
        metadata = log_of(directory).with_name("metadata").read_bytes()
        with opened(directory) as writer:
            extra = (size - confirmed) // record
            assert writer.recovered.entry_count == 3 + extra
            assert writer.recovered.torn_bytes == (size - confirmed) % record
            assert writer.recovered.bad_entries == ()
            assert log_of(directory).stat().st_size == confirmed + extra * record
        assert len(stored(directory)) == 3 + extra
        log_of(directory).with_name("metadata").write_bytes(metadata)


def test_a_torn_end_may_hold_anything(killed):
    """If a byte behind the acknowledged entries is flipped, the entries before it stay and the rest is cut off."""
    directory, confirmed = killed
    whole = log_of(directory).read_bytes()
    record = (len(whole) - confirmed) // 2
    metadata = log_of(directory).with_name("metadata").read_bytes()
    for offset in range(confirmed, len(whole)):
        log_of(directory).write_bytes(flipped(whole, offset))
        with opened(directory) as writer:
            assert writer.recovered.entry_count == 3 + (offset - confirmed) // record
        assert len(stored(directory)) == 3 + (offset - confirmed) // record
        log_of(directory).with_name("metadata").write_bytes(metadata)


@pytest.mark.parametrize("without_confirmed", [False, True])
def test_damage_among_acknowledged_entries_is_no_torn_end(killed, without_confirmed):
    """Damage among acknowledged entries is an error and is never cut off, even if the confirmation is missing."""
    directory, confirmed = killed
    if without_confirmed:
        log_of(directory).with_name("confirmed").unlink()
    whole = log_of(directory).read_bytes()
    second = log_of(directory).with_name("0.index").read_bytes()
    start = int.from_bytes(second[:8], "little")
    for offset in range(start, confirmed):
        log_of(directory).write_bytes(flipped(whole, offset))
        with pytest.raises(LedgerDamaged, match=r"entry 0:[12] in .*0\.log at byte .*on_error=skip"):
            opened(directory)
        assert log_of(directory).read_bytes() == flipped(whole, offset)
    with opened(directory, on_error=ErrorPolicy.SKIP) as writer:
        assert [bad.entry_id for bad in writer.recovered.bad_entries] == [2]
        assert writer.recovered.entry_count == 5
    with open_local_ledgers(directory) as source:
        (ledger,) = source.topic_log(TOPIC).ledgers
        assert ledger.read(0, 4).entries.entry_id.tolist() == [0, 1, 3, 4]


def test_acknowledged_entries_that_are_gone_are_an_error(killed):
    """A log that lacks acknowledged entries is damaged, not torn."""
    directory, confirmed = killed
    os.truncate(log_of(directory), confirmed - 1)
    with pytest.raises(LedgerDamaged, match=r"entry 0:2 .*acknowledged, but not whole"):
        opened(directory)
    with opened(directory, on_error=ErrorPolicy.SKIP) as writer:
        assert writer.last == Position(0, 2)
        assert list(writer.append_many([b"later"], now_ms=9)) == [Position(1, 0)]


def test_readers_can_see_what_was_not_confirmed(killed):
    """Readers return unconfirmed entries on request, if no process writes any more."""
    directory, _ = killed
    assert len(stored(directory)) == 3
    assert len(stored(directory, open_ledgers=OpenLedgers.RECOVERED)) == 5


WORKER = """
import sys
from delayed_tracker.ledger.entry.interceptor_names import load_interceptors
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.ledger.local.rollover import RolloverLimits
directory, topic = sys.argv[1:]
limits = RolloverLimits(entries_max=700)
writer = open_writer(directory, topic, now_ms=1, interceptors=load_interceptors(["index"]), limits=limits)
number = 0
while True:
    writer.append_many([b"%d" % (number + row) for row in range(50)], now_ms=1)
    writer.flush()
    number += 50
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_killed_process_loses_nothing_that_it_acknowledged(tmp_path):
    """A real writer that is killed by kill -9, three times on one topic, loses no acknowledged entry."""
    for rounds in range(1, 4):
        before = len(stored(tmp_path)) if rounds > 1 else 0
        with subprocess.Popen([sys.executable, "-c", WORKER, str(tmp_path), TOPIC], stdout=subprocess.PIPE) as worker:
            for _ in range(30):
                acknowledged = int(worker.stdout.readline())
            os.kill(worker.pid, signal.SIGKILL)
            acknowledged = max([acknowledged, *map(int, worker.stdout.read().split(b"\n")[:-1])])
        assert len(stored(tmp_path)) >= before + acknowledged
        with opened(tmp_path):
            found = stored(tmp_path)
        frames = [broker_metadata_of(entry) for _, entry in found]
        assert [frame.index for frame in frames] == list(range(len(found)))
        written = [int(entry[6 + frame.ByteSize() :]) for (_, entry), frame in zip(found, frames, strict=True)]
        assert written[before:] == list(range(len(found) - before))
