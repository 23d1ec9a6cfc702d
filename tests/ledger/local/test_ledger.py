"""Tests of reading one local ledger: at random, in pieces, without an index, and with damage."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.local import ledger as ledger_module
from delayed_tracker.ledger.local import source as source_module
from delayed_tracker.ledger.local.files.layout import LedgerDirectory
from delayed_tracker.ledger.local.files.records import LOG_HEADER, Frames, Payloads, encode_records
from delayed_tracker.ledger.local.found_records import find_records
from delayed_tracker.ledger.local.ledger import LocalLedger
from delayed_tracker.ledger.local.opening import open_writer
from delayed_tracker.ledger.local.recovery import confirmed_last_entry
from delayed_tracker.ledger.local.rollover import RolloverLimits
from delayed_tracker.ledger.local.source import open_local_ledgers
from delayed_tracker.ledger.topic_name import TopicName
from tests.ledger.harness.log_files import flipped
from tests.ledger.local.disks import TOPIC, QuickDisk

PAYLOADS = [bytes([row]) * size for row, size in enumerate((3, 0, 40, 9, 1))]


def ledger_of(directory: Path, payloads: list[bytes]) -> LocalLedger:
    with open_writer(directory, TOPIC, now_ms=1, disk=QuickDisk()) as writer:
        writer.append_many(payloads, now_ms=1)
    return again(directory, len(payloads))


def again(directory: Path, entry_count: int) -> LocalLedger:
    files = LedgerDirectory(directory).topic(TopicName.parse(TOPIC))
    return LocalLedger(files.log(0), files.index(0), 0, entry_count - 1, None, closed=True)


def all_payloads(directory: Path) -> list[bytes]:
    with open_local_ledgers(directory) as source:
        return [payload for piece in source.topic_log(TOPIC).scan() for payload in payloads_of(piece)]


def payloads_of(read) -> list[bytes]:
    return [read.entries.payload(row) for row in range(len(read.entries))]


@pytest.fixture
def ledger(tmp_path):
    return ledger_of(tmp_path, PAYLOADS)


def test_any_range(ledger):
    """Every range from any entry to any other is read, including the empty range."""
    for first in range(5):
        for last in range(first - 1, 5):
            read = ledger.read(first, last)
            assert payloads_of(read) == PAYLOADS[first : last + 1]
            assert read.entries.entry_id.tolist() == list(range(first, last + 1))
            assert read.entries.ledger_id.tolist() == [0] * (last - first + 1)
            assert read.bad_entries == ()


def test_a_ledger_may_end_while_somebody_looks(tmp_path, monkeypatch):
    """Metadata and confirmation are read again if the ledger ended between the two reads."""
    with open_writer(tmp_path, TOPIC, now_ms=1, disk=QuickDisk()) as writer:

        def append(payload: bytes) -> None:
            writer.append_many([payload], now_ms=1)
            writer.flush()

        def begin_another() -> None:
            writer.roll_over(now_ms=1)
            append(b"c")

        append(b"a")
        moments = iter([lambda: writer.roll_over(now_ms=1), lambda: None, begin_another])

        def meanwhile(*arguments):
            next(moments, lambda: None)()
            return confirmed_last_entry(*arguments)

        monkeypatch.setattr(source_module, "confirmed_last_entry", meanwhile)
        assert all_payloads(tmp_path) == [b"a"]
        append(b"b")
        assert all_payloads(tmp_path) == [b"a", b"b"]
        assert all_payloads(tmp_path) == [b"a", b"b", b"c"]


@pytest.mark.slow
def test_readers_keep_up_with_a_writer(tmp_path):
    """Each read during writes and rollovers returns, in order, at least the entries that were durable before it."""
    durable = [0]
    done = threading.Event()

    def look() -> int:
        looks = 0
        while not done.is_set():
            before = durable[0]
            found = all_payloads(tmp_path)
            assert found == [b"%d" % number for number in range(len(found))]
            assert before <= len(found) <= durable[0] + 3
            looks += 1
        return looks

    with (
        open_writer(tmp_path, TOPIC, now_ms=1, limits=RolloverLimits(entries_max=40), disk=QuickDisk()) as writer,
        ThreadPoolExecutor(2) as threads,
    ):
        lookers = [threads.submit(look) for _ in range(2)]
        try:
            for number in range(0, 600, 3):
                writer.append_many([b"%d" % (number + row) for row in range(3)], now_ms=1)
                writer.flush()
                durable[0] = number + 3
        finally:
            done.set()
        assert all(looker.result() > 1 for looker in lookers)


@pytest.mark.parametrize(("first", "last"), [(-1, 0), (0, 5), (5, 5)])
def test_a_range_outside_is_refused(ledger, first, last):
    """A range outside of the ledger is refused with the entries that exist."""
    for call in (ledger.read, lambda first, last: list(ledger.scan(first, last))):
        with pytest.raises(InvalidInput, match="ledger 0 has entries 0 to 4"):
            call(first, last)


@pytest.mark.parametrize(
    ("bytes_max", "entries_max", "pieces"), [(1, 99, 5), (90, 99, 3), (1 << 20, 2, 3), (1 << 20, 99, 1)]
)
def test_scans_come_in_pieces(ledger, monkeypatch, bytes_max, entries_max, pieces):
    """Each piece of a scan has at least one entry and otherwise as many as fit, with or without an index."""
    monkeypatch.setattr(ledger_module, "_PIECE_BYTES", bytes_max)
    monkeypatch.setattr(ledger_module, "_PIECE_ENTRIES_MAX", entries_max)
    for _ in range(2):
        scanned = list(ledger.scan(0, 4))
        assert [payload for piece in scanned for payload in payloads_of(piece)] == PAYLOADS
        assert len(scanned) == pieces
        assert [payload for piece in ledger.scan(2, 3) for payload in payloads_of(piece)] == PAYLOADS[2:4]
        ledger.index.unlink(missing_ok=True)
    assert list(ledger.scan(3, 2)) == []


def test_the_index_is_not_trusted(tmp_path):
    """An index that is missing, cut, random, another ledger's, or has a flipped byte does not change the entries."""
    index = ledger_of(tmp_path, PAYLOADS).index
    right = index.read_bytes()
    rows = np.frombuffer(right, "<i8")
    wrong = [b"", right[:-1], right[8:], b"\xff" * len(right), bytes(len(right)), (rows + 1).tobytes()]
    wrong += [np.sort(rows)[::-1].tobytes(), (rows // 41 * 41).tobytes(), (rows << 40).tobytes()]
    wrong += [flipped(right, offset, mask) for offset in range(len(right)) for mask in (1, 0x80)]
    for content in wrong:
        index.write_bytes(content)
        ledger = again(tmp_path, 5)
        assert payloads_of(ledger.read(3, 3)) == PAYLOADS[3:4]
        assert payloads_of(ledger.read(0, 4)) == PAYLOADS


@pytest.mark.parametrize("indexed", [True, False])
@pytest.mark.parametrize("mask", [0x01, 0x80])
def test_a_flipped_byte_costs_its_own_entry(tmp_path, mask, indexed):
    """A flipped byte loses its own entry only; without an index, a flipped size also loses the entries behind it."""
    log = ledger_of(tmp_path, PAYLOADS).log
    right = log.read_bytes()
    ends = np.frombuffer(again(tmp_path, 5).index.read_bytes(), "<i8")
    if not indexed:
        again(tmp_path, 5).index.unlink()
    for offset in [*range(32), *range(1020, len(right))]:
        log.write_bytes(flipped(right, offset, mask))
        ledger = again(tmp_path, 5)
        if offset < 8:
            with pytest.raises(LedgerFileInvalid, match=r"0\.log does not start as a ledger's log does"):
                ledger.read(0, 4)
            continue
        damaged = int(np.searchsorted(ends, offset, side="right")) if offset >= 1024 else None
        good = [row for row in range(5) if row != damaged]
        read = ledger.read(0, 4)
        in_size = damaged is not None and (offset - (ends[damaged - 1] if damaged else 1024)) < 4
        if in_size and not indexed:
            # Without an index, the start of the next entry is unknown.
            good = list(range(damaged))
        assert read.entries.entry_id.tolist() == good
        assert payloads_of(read) == [PAYLOADS[row] for row in good]
        assert [bad.entry_id for bad in read.bad_entries] == [row for row in range(5) if row not in good]
        assert all(str(log) == bad.file for bad in read.bad_entries)
        assert payloads_of(ledger.read(4, 4)) == (PAYLOADS[4:] if 4 in good else [])


def test_an_id_that_no_ledger_reaches_is_damage(tmp_path):
    """A record far behind all others, though its digest fits, takes no memory for the entries between."""
    ledger = ledger_of(tmp_path, PAYLOADS)
    ids = np.array([0, 3, 2**45, 2**45 + 1], np.int64)
    records, _ = encode_records(
        Payloads.of([b"x"] * len(ids)),
        Frames.none(len(ids)),
        ledger_id=0,
        entry_ids=ids,
        last_add_confirmed=-1,
        length=0,
    )
    ledger.log.write_bytes(LOG_HEADER + bytes(records))
    ledger.index.unlink()
    assert find_records(ledger.log, ledger.index, 0).whole.tolist() == [True, False, False, True]
    read = again(tmp_path, 5).read(0, 4)
    assert read.entries.entry_id.tolist() == [0, 3]
    assert [bad.entry_id for bad in read.bad_entries] == [1, 2, 4]


def test_a_log_that_is_cut_short_costs_the_entries_behind(tmp_path):
    """A log that is cut at any byte loses only the entries behind the cut, which are listed, also without an index."""
    whole = ledger_of(tmp_path, PAYLOADS)
    right = whole.log.read_bytes()
    ends = np.frombuffer(whole.index.read_bytes(), "<i8")
    for size in range(1024, len(right)):
        whole.log.write_bytes(right[:size])
        read = again(tmp_path, 5).read(0, 4)
        count = int((ends <= size).sum())
        assert payloads_of(read) == PAYLOADS[:count]
        assert [bad.entry_id for bad in read.bad_entries] == list(range(count, 5))


def test_many_damaged_entries_in_a_row_are_passed_over(tmp_path):
    """With an index, a stretch of zeros loses only the entries that it touches."""
    payloads = [b"%d" % row * 10 for row in range(1_000)]
    ledger = ledger_of(tmp_path, payloads)
    ends = np.frombuffer(ledger.index.read_bytes(), "<i8")
    right = ledger.log.read_bytes()
    ledger.log.write_bytes(right[: ends[99] + 5] + bytes(ends[499] - ends[99]) + right[ends[499] + 5 :])
    read = ledger.read(0, 999)
    good = [*range(100), *range(501, 1_000)]
    assert payloads_of(read) == [payloads[row] for row in good]
    assert [bad.entry_id for bad in read.bad_entries] == list(range(100, 501))


@pytest.mark.parametrize("indexed", [True, False])
def test_a_payload_that_is_a_log_is_a_payload(tmp_path, indexed):
    """Records within a payload are never read as entries, even if a damaged size ends the entry before one."""
    inner = ledger_of(tmp_path, PAYLOADS).log.read_bytes()[1024:]
    inside = np.frombuffer(again(tmp_path, 5).index.read_bytes(), "<i8") - 1024
    (tmp_path / "outer").mkdir()
    ledger = ledger_of(tmp_path / "outer", [b"a", inner, b"b"])
    assert payloads_of(ledger.read(0, 2)) == [b"a", inner, b"b"]
    right = ledger.log.read_bytes()
    start = int.from_bytes(ledger.index.read_bytes()[:8], "little")
    if not indexed:
        ledger.index.unlink()
    sizes = [size for size in [*range(400), *(36 + inside).tolist()] if size != 36 + len(inner)]
    damaged = [right[:start] + size.to_bytes(4, "big") + right[start + 4 :] for size in sizes]
    # Bookies pad their logs with such bytes.
    damaged += [right[:start] + b"\xff" * (40 + at) + right[start + 40 + at :] for at in [0, *inside.tolist()]]
    for content in damaged:
        ledger.log.write_bytes(content)
        assert payloads_of(again(tmp_path / "outer", 3).read(0, 2)) == ([b"a", b"b"] if indexed else [b"a"])
