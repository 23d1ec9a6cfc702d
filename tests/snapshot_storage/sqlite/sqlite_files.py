"""Storages in files for the tests, and direct access to their tables."""

import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from delayed_tracker.storage.sqlite.blocks import BLOCK_BYTES
from delayed_tracker.storage.sqlite.storage import SqliteStorage

_FORMATS = Path(__file__).with_name("formats")


@contextlib.asynccontextmanager
async def started(
    path: Path, *, chunk_bytes: int = 1024 * 1024, block_bytes: int = BLOCK_BYTES
) -> AsyncIterator[SqliteStorage]:
    storage = SqliteStorage(path, chunk_bytes=chunk_bytes, block_bytes=block_bytes)
    await storage.start()
    try:
        yield storage
    finally:
        await storage.close()


async def each(segments: Iterable[bytes]) -> AsyncIterator[bytes]:
    for segment in segments:
        yield segment


async def create(storage: SqliteStorage, segments: Iterable[bytes], *, topic: str = "t") -> int:
    return await storage.create_bucket_snapshot(
        b"metadata", each(segments), bucket_key="k", topic=topic, cursor="c", epoch=1
    )


def make_format(version: int, path: Path) -> None:
    """Create a file in an older format, from a dump of a file that a program of that format wrote."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript((_FORMATS / f"format_{version}.sql").read_text(encoding="utf-8"))


def ask(path: Path, question: str) -> list[tuple]:
    """Run a statement on a storage file without the storage."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(question).fetchall()
