"""Tables of the file that holds snapshots and catalogue, and the statements that update its older formats."""

import struct
from typing import Final

import google_crc32c

from delayed_tracker.storage.sqlite.file_schema import FileSchema

ENTRY_BITS: Final = 24
"""A key is ``bucket_id << ENTRY_BITS | entry_id``: one B-tree in the order of reading, and no second index."""
ENTRY_ID_MAX: Final = (1 << ENTRY_BITS) - 1
PAGE_BYTES: Final = 16 * 1024
"""Size of a page. A large page holds a block of entries."""

_TABLES: Final = (
    # AUTOINCREMENT: an id is never used again, even if the highest one was deleted.
    """CREATE TABLE snapshots (
        bucket_id INTEGER PRIMARY KEY AUTOINCREMENT,
        topic TEXT NOT NULL,
        cursor TEXT NOT NULL,
        bucket_key TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        complete INTEGER NOT NULL,
        entry_count INTEGER NOT NULL,
        payload_bytes INTEGER NOT NULL
    )""",
    "CREATE INDEX snapshots_by_tracker ON snapshots (topic, cursor)",
    """CREATE TABLE entries (
        entry_key INTEGER PRIMARY KEY,
        crc32c INTEGER NOT NULL,
        payload BLOB NOT NULL,
        lengths BLOB
    )""",
    """CREATE TABLE trackers (
        tracker_id INTEGER PRIMARY KEY,
        topic TEXT NOT NULL,
        cursor TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        forgotten INTEGER NOT NULL,
        writer TEXT NOT NULL DEFAULT '',
        mark_delete_ledger_id INTEGER,
        mark_delete_entry_id INTEGER,
        log_number INTEGER NOT NULL DEFAULT 0,
        offered_ledger_id INTEGER,
        offered_entry_id INTEGER,
        log_id TEXT NOT NULL DEFAULT '',
        stored_ledger_id INTEGER,
        stored_entry_id INTEGER,
        UNIQUE (topic, cursor)
    )""",
    """CREATE TABLE catalogue (
        tracker_id INTEGER NOT NULL REFERENCES trackers,
        bucket_id INTEGER NOT NULL,
        first_ledger_id INTEGER NOT NULL,
        first_entry_id INTEGER NOT NULL,
        last_ledger_id INTEGER NOT NULL,
        last_entry_id INTEGER NOT NULL,
        mark_delete_ledger_id INTEGER,
        mark_delete_entry_id INTEGER,
        summary BLOB NOT NULL,
        consumed BLOB NOT NULL,
        crc32c INTEGER NOT NULL,
        seal_number INTEGER,
        PRIMARY KEY (tracker_id, bucket_id)
    )""",
)
_SEAL_NUMBER: Final = struct.Struct("<?q")
_CHANGES: Final = {
    1: (
        "ALTER TABLE trackers ADD COLUMN writer TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE trackers ADD COLUMN mark_delete_ledger_id INTEGER",
        "ALTER TABLE trackers ADD COLUMN mark_delete_entry_id INTEGER",
    ),
    2: ("ALTER TABLE entries ADD COLUMN lengths BLOB",),
    3: (
        "ALTER TABLE catalogue ADD COLUMN seal_number INTEGER",
        # Until then recovery took bucket ids for the order, and entries without a summary for foreign ones.
        """UPDATE catalogue SET
            seal_number = iif(length(summary), bucket_id, NULL),
            crc32c = with_seal_number(crc32c, iif(length(summary), bucket_id, NULL))
            WHERE typeof(bucket_id) = 'integer' AND typeof(crc32c) = 'integer' AND crc32c BETWEEN 0 AND 0xffffffff""",
    ),
    4: (
        "ALTER TABLE trackers ADD COLUMN log_number INTEGER NOT NULL DEFAULT 0",
        "ALTER TABLE trackers ADD COLUMN offered_ledger_id INTEGER",
        "ALTER TABLE trackers ADD COLUMN offered_entry_id INTEGER",
    ),
    5: (
        "ALTER TABLE trackers ADD COLUMN log_id TEXT NOT NULL DEFAULT ''",
        "ALTER TABLE trackers ADD COLUMN stored_ledger_id INTEGER",
        "ALTER TABLE trackers ADD COLUMN stored_entry_id INTEGER",
    ),
}
"""Statements that turn each older format into the next."""


def with_seal_number(checksum: int, seal_number: int | None) -> int:
    """Return the checksum of a catalogue row, given that of its other columns.

    The number comes last, so that rows of older formats need not be checked to get one: a damaged row stays damaged.
    """
    return int(google_crc32c.extend(checksum, _SEAL_NUMBER.pack(seal_number is not None, seal_number or 0)))


SNAPSHOTS_SCHEMA: Final = FileSchema(
    application_id=int.from_bytes(b"DDTr", "big"),
    format_version=6,
    page_bytes=PAGE_BYTES,
    tables=_TABLES,
    changes=_CHANGES,
    functions={"with_seal_number": (2, with_seal_number)},
)
