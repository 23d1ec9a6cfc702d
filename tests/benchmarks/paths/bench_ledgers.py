"""Cost of reading stored entries one after the other on one core, with checksums and metadata; and of look-ups."""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from delayed_tracker.ledger.bookkeeper.entry_logs import open_entry_logs
from delayed_tracker.ledger.entry.entry_columns import scan_entries
from delayed_tracker.ledger.entry.stored_entries import LedgerEntries
from delayed_tracker.ledger.offload.map_file import open_map_file
from delayed_tracker.ledger.offload.recent_rows import RecentRows
from delayed_tracker.ledger.offload.sequence_file import Compression
from delayed_tracker.ledger.topic.topic_log import Ledger, TopicLog
from tests.benchmarks.inputs.deflated import deflated_streams, inflate_all
from tests.benchmarks.inputs.ledger_look_ups import look_up_rows
from tests.benchmarks.inputs.stored_ledgers import (
    TOPIC,
    copied_locally,
    entries,
    logged_topic,
    map_file,
    open_blob,
    write_blob,
    write_log,
)
from tests.benchmarks.measure import Reading, Run
from tests.benchmarks.peers.pulsar_parser import measure_pulsar_parser
from tests.benchmarks.rows import Row, Unit, per_second

ABOUT = (
    "Delayed messages with a broker's frame, 211 bytes each. From entry logs: the files are opened and every record "
    "found; BookKeeper's digest and the message's own checksum are computed; all columns are filled in. From memory: the "
    "checksum and the columns. From tiered storage, in directories: the ledger is opened, every entry found (and "
    "inflated), the checksum computed, all columns filled in; of a MapFile a quarter as many. Inflating alone is what "
    "takes the same streams when they are in memory, by processor time: by the inflater that we use, zlib-ng, and by zlib, "
    "which Hadoop uses; each repeat is divided by its own. Payloads are JSON of which a third differs from entry to "
    "entry. The peer is Pulsar's own parser over the same entries in memory: frame, checksum and metadata, whichever row "
    "it stands beside. CPU is for each entry. By the profile of entries in memory two thirds are the kernel of frames and "
    "metadata, 34 ns, and a third the checksum; handing arrays to functions inside a kernel, and writing values as they "
    "are met, made it 75. Of a MapFile of records nearly all is one call of the inflater for each, 200 ns before it "
    "begins. A fresh page of memory costs a microsecond and more, which is why blocks are inflated into room made before. "
    "Tried: isal and libdeflate (quicker for blocks by a quarter and a third, slower for single records by half and "
    "more than twice). "
    "Look-ups are for random messages and times, one after the other, each knowing nothing of the one before; "
    "warm means that the operating system has the file, and that places of a blob's records are known."
)

_Add = Callable[[LedgerEntries], None]
_MAP_FILE_SHARE = 4


@dataclass(slots=True)
class _Seen:
    """Output of a read, for comparison."""

    readable: int = 0
    index_sum: int = 0
    delay_sum: int = 0
    unread: int = 0

    def add(self, read: LedgerEntries) -> None:
        columns = scan_entries(read.entries)
        self.readable += int(columns.readable.sum())
        self.index_sum += int(columns.index.sum())
        self.delay_sum += int((columns.deliver_at_ms - columns.publish_time_ms).sum())
        self.unread += len(read.bad_entries)


def rows(run: Run) -> Iterator[Row]:
    """Measure entry logs, then entries in memory, then tiered storage, then look-ups."""
    count = run.scale.stored_entries
    run.note(f"writing {count:,} entries")
    payloads = list(entries(count))
    log_directory, blob_directory = run.new_directory(), run.new_directory()
    ledgers = write_log(log_directory / "0.log", payloads)
    write_blob(blob_directory, payloads)

    def read_logs(add: _Add) -> None:
        with open_entry_logs([log_directory]) as logs:
            for piece in logged_topic(logs, ledgers).scan():
                add(piece)

    measure_pulsar_parser(run, payloads, ("ledger read", "ledger parse"))
    yield _sequential_row(run, "ledger read", "entry logs: open, find, verify, parse", count, read_logs)

    held: list[LedgerEntries] = []
    read_logs(held.append)

    def parse_held(add: _Add) -> None:
        for piece in held:
            add(piece)

    yield _sequential_row(run, "ledger parse", "memory: verify, parse", count, parse_held)
    held.clear()

    def read_blob(add: _Add) -> None:
        _scan(open_blob(blob_directory), add)

    yield _sequential_row(run, "ledger read", "blob: open, find, verify, parse", count, read_blob)
    some = payloads[: max(1, count // _MAP_FILE_SHARE)]
    for compression in Compression:
        yield from _map_file_rows(run, some, compression)
    payloads.clear()
    with open_entry_logs([log_directory]) as logs:
        log = logged_topic(logs, ledgers)
        yield from look_up_rows(run, "local ledgers", copied_locally(log, run.new_directory()))
        yield from look_up_rows(run, "entry logs", log)
    yield from look_up_rows(run, "blob", TopicLog(TOPIC, (open_blob(blob_directory),)))


def _map_file_rows(run: Run, payloads: Sequence[bytes], compression: Compression) -> Iterator[Row]:
    name, count = f"MapFile {compression.name}", len(payloads)
    run.note(f"writing {name}, {count:,} entries")
    writer = map_file(payloads, compression)
    directory = writer.save(run.new_directory())

    def read(add: _Add) -> None:
        _scan(open_map_file(directory, 1, RecentRows()), add)

    what = f"{name}: open, find, {'' if compression is Compression.NONE else 'inflate, '}verify, parse"
    readings = _sequential(run, what, count, read)
    yield per_second("map file read", what, readings, count, unit=_RATE)
    if compression is Compression.NONE:
        return
    finding = run.measure(
        f"{name}: open, find, inflate",
        prepare=list[int],
        run=lambda found: read(lambda piece: found.append(len(piece.entries))),
        verify=lambda found: sum(found) == count,
    )
    what = f"{name}: inflate alone"
    inflating = run.measure(
        what,
        prepare=list[int],
        run=partial(inflate_all, deflated_streams(writer, compression), compression),
        verify=lambda sizes: sum(sizes) > count * len(payloads[0]),
    )
    yield per_second("inflate", what, inflating, count, unit=_RATE)
    by_zlib = run.measure(
        f"{name}: inflate alone, zlib",
        prepare=list[int],
        run=partial(_inflate_by_zlib, deflated_streams(writer, compression)),
        verify=lambda sizes: sum(sizes) > count * len(payloads[0]),
    )
    yield per_second("inflate", f"{name}: inflate alone, zlib", by_zlib, count, unit=_RATE)
    for key, part, taken in (
        ("inflate and find", "open, find, inflate", finding),
        ("inflate and parse", "open, find, inflate, verify, parse", readings),
    ):
        for alone, how in ((inflating, "inflating alone"), (by_zlib, "inflating alone by zlib")):
            ratios = tuple(both.cpu_ns / single.cpu_ns for both, single in zip(taken, alone, strict=True))
            yield Row(key, f"{name}: {part}, beside {how}", Unit.TIMES_INFLATING, ratios, count)


def _inflate_by_zlib(streams: Sequence[bytes], sizes: list[int]) -> None:
    sizes.extend(len(zlib.decompress(stream)) for stream in streams)


def _scan(ledger: Ledger, add: _Add) -> None:
    for piece in ledger.scan(0, ledger.last_entry_id):
        add(piece)


_RATE = Unit.MILLION_ENTRIES_PER_S


def _sequential_row(run: Run, key: str, what: str, count: int, read: Callable[[_Add], None]) -> Row:
    return per_second(key, what, _sequential(run, what, count, read), count, unit=_RATE)


def _sequential(run: Run, what: str, count: int, read: Callable[[_Add], None]) -> list[Reading]:
    """Measure a read of all entries of ``entries``; ``read`` calls back with each piece."""

    def verify(seen: _Seen) -> bool:
        return seen == _Seen(count, count * (count - 1) // 2, 7 * count * (count - 1) // 2)

    return run.measure(what, prepare=_Seen, run=lambda seen: read(seen.add), verify=verify)
