"""SQL statements for snapshots: plain functions on a connection, run in a writer or reader thread."""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from delayed_tracker.core.values.errors import InvalidInput
from delayed_tracker.storage.capabilities import SnapshotPlaces
from delayed_tracker.storage.errors import SnapshotNotFound
from delayed_tracker.storage.protocol import StoredSnapshot
from delayed_tracker.storage.sqlite.blocks import LastPage, entries_of, rows_of
from delayed_tracker.storage.sqlite.schema import ENTRY_BITS, ENTRY_ID_MAX
from delayed_tracker.storage.sqlite.threads import read_transaction, transaction

_BUCKET_ID_MAX: Final = (1 << (63 - ENTRY_BITS)) - 1
_RECLAIM_FROM_PAGES: Final = 64
_RECLAIM_PAGES_MAX: Final = 1_024


@dataclass(slots=True)
class Draft:
    """A snapshot in creation; only the writer thread changes it after construction."""

    topic: str
    cursor: str
    bucket_key: str
    epoch: int
    bucket_id: int | None = None
    """Id of the bucket; None until a transaction with it is committed."""
    entry_count: int = 0
    payload_bytes: int = 0


def append(
    connection: sqlite3.Connection,
    draft: Draft,
    entries: Sequence[bytes],
    *,
    complete: bool,
    block_bytes: int,
    last_page: LastPage,
) -> int:
    """Add entries to a draft, which becomes visible if ``complete``; return its bucket id.

    Runs in the caller's transaction.

    The caller passes the result to :func:`settle` once the transaction is committed: a bucket id that was rolled back
    may be given to another snapshot.
    """
    entry_count = draft.entry_count + len(entries)
    payload_bytes = draft.payload_bytes + sum(map(len, entries))
    if entry_count - 1 > ENTRY_ID_MAX:
        raise InvalidInput("segments", entry_count - 1, f"a snapshot holds up to {ENTRY_ID_MAX}; use longer segments")
    bucket_id = draft.bucket_id
    if bucket_id is None:
        (bucket_id,) = connection.execute(
            "INSERT INTO snapshots (topic, cursor, bucket_key, epoch, complete, entry_count, payload_bytes) "
            "VALUES (?, ?, ?, ?, ?, ?, ?) RETURNING bucket_id",
            (draft.topic, draft.cursor, draft.bucket_key, draft.epoch, complete, entry_count, payload_bytes),
        ).fetchone()
    else:
        connection.execute(
            "UPDATE snapshots SET complete = ?, entry_count = ?, payload_bytes = ? WHERE bucket_id = ?",
            (complete, entry_count, payload_bytes, bucket_id),
        )
    first_key = (bucket_id << ENTRY_BITS) + draft.entry_count
    connection.executemany(
        "INSERT INTO entries (entry_key, crc32c, payload, lengths) VALUES (?, ?, ?, ?)",
        rows_of(entries, first_key, block_bytes, last_page),
    )
    return bucket_id


def settle(draft: Draft, bucket_id: int, entries: Sequence[bytes]) -> None:
    """Record in the draft what :func:`append` added, after the commit."""
    draft.bucket_id = bucket_id
    draft.entry_count += len(entries)
    draft.payload_bytes += sum(map(len, entries))


def remove(connection: sqlite3.Connection, bucket_id: int) -> None:
    """Delete a snapshot, complete or not, if it exists. Runs in the caller's transaction."""
    if 0 < bucket_id <= _BUCKET_ID_MAX:
        connection.execute("DELETE FROM snapshots WHERE bucket_id = ?", (bucket_id,))
        connection.execute("DELETE FROM entries WHERE entry_key BETWEEN ? AND ?", _keys(bucket_id, 0, ENTRY_ID_MAX))


def sweep(connection: sqlite3.Connection) -> int:
    """Delete snapshots that a crash left incomplete; return their number."""
    incomplete = connection.execute("SELECT bucket_id FROM snapshots WHERE NOT complete").fetchall()
    for (bucket_id,) in incomplete:
        with transaction(connection):
            remove(connection, bucket_id)
    reclaim(connection)
    return len(incomplete)


def reclaim(connection: sqlite3.Connection) -> None:
    """Return pages to the file system if a quarter of the file is free; fewer are soon used again."""
    (free_count,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page_count,) = connection.execute("PRAGMA page_count").fetchone()
    if free_count >= _RECLAIM_FROM_PAGES and 4 * free_count >= page_count:
        # Each step of the statement frees one page. execute() makes a single step, executescript() makes all of them.
        connection.executescript(f"PRAGMA incremental_vacuum({_RECLAIM_PAGES_MAX})")


def read_entries(connection: sqlite3.Connection, bucket_id: int, first: int, last: int) -> list[bytes]:
    """Return entries ``first`` to ``last`` of a complete snapshot, verified."""
    with read_transaction(connection):
        entry_count, _ = _sizes(connection, bucket_id)
        if last >= entry_count:
            raise SnapshotNotFound(f"bucket {bucket_id} has {entry_count - 1} segments, not {last}")
        first_key, last_key = _keys(bucket_id, first, last)
        rows = connection.execute(
            "SELECT entry_key, crc32c, payload, lengths FROM entries WHERE entry_key <= :last AND entry_key >= "
            "(SELECT max(entry_key) FROM entries WHERE entry_key BETWEEN :lowest AND :first) ORDER BY entry_key",
            {"lowest": bucket_id << ENTRY_BITS, "first": first_key, "last": last_key},
        ).fetchall()
    return entries_of(rows, first_key, last_key)


def read_entry_count(connection: sqlite3.Connection, bucket_id: int) -> int:
    """Return the number of entries of a complete snapshot, its metadata included."""
    return _sizes(connection, bucket_id)[0]


def read_length(connection: sqlite3.Connection, bucket_id: int) -> int:
    """Return the payload bytes of a complete snapshot."""
    return _sizes(connection, bucket_id)[1]


def list_snapshots(connection: sqlite3.Connection, topic: str, cursor: str) -> list[StoredSnapshot]:
    """Return the complete snapshots of one tracker, ascending by bucket id."""
    rows = connection.execute(
        "SELECT bucket_id, epoch FROM snapshots WHERE topic = ? AND cursor = ? AND complete ORDER BY bucket_id",
        (topic, cursor),
    )
    return [StoredSnapshot(bucket_id, epoch) for bucket_id, epoch in rows]


def trackers(connection: sqlite3.Connection) -> SnapshotPlaces:
    """Return the trackers that have complete snapshots."""
    return SnapshotPlaces(frozenset(connection.execute("SELECT DISTINCT topic, cursor FROM snapshots WHERE complete")))


def _sizes(connection: sqlite3.Connection, bucket_id: int) -> tuple[int, int]:
    row = None
    if 0 < bucket_id <= _BUCKET_ID_MAX:
        row = connection.execute(
            "SELECT entry_count, payload_bytes FROM snapshots WHERE bucket_id = ? AND complete", (bucket_id,)
        ).fetchone()
    if row is None:
        raise SnapshotNotFound(f"there is no snapshot of bucket {bucket_id}")
    return int(row[0]), int(row[1])


def _keys(bucket_id: int, first: int, last: int) -> tuple[int, int]:
    base = bucket_id << ENTRY_BITS
    return base + first, base + last
