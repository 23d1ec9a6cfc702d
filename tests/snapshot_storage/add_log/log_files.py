"""Add logs in files for the tests."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from delayed_tracker.storage.add_log import AddLog, LogAppend
from delayed_tracker.storage.sqlite.add_log import SqliteAddLog


@contextlib.asynccontextmanager
async def started(path: Path) -> AsyncIterator[SqliteAddLog]:
    log = SqliteAddLog(path)
    await log.start()
    try:
        yield log
    finally:
        await log.close()


def part(first_number: int, *records: bytes, cursor: str = "c", epoch: int = 1) -> LogAppend:
    return LogAppend("t", cursor, epoch, first_number, records)


async def append(log: AddLog, *parts: LogAppend, writer: str = "w") -> None:
    assert await log.append(parts, writer=writer) == []


async def records_of(log: AddLog, cursor: str = "c", *, after: int = 0) -> list[bytes]:
    """Return all records of a tracker, none of which is corrupt."""
    page = await log.read("t", cursor, after=after, bytes_max=1 << 40)
    assert page.is_last
    assert not page.corrupt
    return [logged.record for logged in page.records]
