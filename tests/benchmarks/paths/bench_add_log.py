"""Bytes of an add in the add log: of the records, and of the file."""

from collections.abc import AsyncIterator, Sequence

from delayed_tracker.core.values.changes import Added
from delayed_tracker.core.values.columns import IndexColumns
from delayed_tracker.storage.add_log import LogAppend
from delayed_tracker.storage.codec.log_records import decode_change, encode_change
from delayed_tracker.storage.sqlite.add_log import SqliteAddLog
from tests.benchmarks.inputs.hosted import KEY
from tests.benchmarks.inputs.shapes import BATCH, Shape, batches, offered
from tests.benchmarks.measure import Run, require
from tests.benchmarks.rows import Row, Unit

ABOUT = (
    "Records of one tracker as the service writes them, each batch in a commit of its own, into the add log's SQLite file; "
    "ledgers of 50,000, every entry delayed. A record has 56 bytes beside its rows. The file is measured after it was "
    "closed, so without the write-ahead log, which takes up to 4 MB more. All records are read back and compared."
)
PAGE_BYTES = 2**20
SMALL = 10


async def rows(run: Run) -> AsyncIterator[Row]:
    """Measure batches of 1,000 in every shape, then small ones."""
    for shape in Shape:
        async for row in _rows(run, shape, BATCH, run.scale.adds):
            yield row
    async for row in _rows(run, Shape.WEEK, SMALL, SMALL * run.scale.calls):
        yield row


async def _rows(run: Run, shape: Shape, size: int, count: int) -> AsyncIterator[Row]:
    indexes = offered(shape, count, per_ledger=run.scale.bucket)
    path = run.new_directory() / "add-log"
    log = SqliteAddLog(path)
    await log.start()
    for number, part in enumerate(batches(indexes, size), start=1):
        await log.append([LogAppend(*KEY, 1, number, [encode_change(Added(part))])], writer="benchmark")
    (extent,) = await log.extents()
    require("the add log", _are_equal(await _read(log), indexes))
    await log.close()
    found = {"records": extent.record_bytes, "file": path.stat().st_size}
    for what, size_bytes in found.items():
        per_add = (size_bytes / count,)
        yield Row(f"log {what}", f"add log, batches of {size:,}: {what}", Unit.BYTES_PER_INDEX, per_add, count, shape)


async def _read(log: SqliteAddLog) -> list[Added]:
    found: list[Added] = []
    after, is_last = 0, False
    while not is_last:
        page = await log.read(*KEY, after=after, bytes_max=PAGE_BYTES)
        for each in page.records:
            change = decode_change(each.record)
            assert isinstance(change, Added)
            found.append(change)
        after, is_last = page.records[-1].number, page.is_last
    return found


def _are_equal(found: Sequence[Added], indexes: IndexColumns) -> bool:
    read = IndexColumns.concat([each.indexes for each in found])
    return len(read) == len(indexes) and all(
        bool((getattr(read, column) == getattr(indexes, column)).all())
        for column in ("deliver_at_ms", "ledger_id", "entry_id")
    )
