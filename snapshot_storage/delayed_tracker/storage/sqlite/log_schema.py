"""Tables of the add log's file, which is beside the snapshots' file.

Its pages are smaller than those of snapshots: a commit writes each page that it touches into the write-ahead log, and the
records of most commits are short. Rows are appended, whatever tracker they are of, so that a commit of many trackers fills
few pages; only the short entries of the index go to each tracker's place.
"""

from typing import Final

from delayed_tracker.storage.sqlite.file_schema import FileSchema

_IDENTITY: Final = """CREATE TABLE identity (
    log_id TEXT NOT NULL,
    inode INTEGER NOT NULL
)"""

LOG_SCHEMA: Final = FileSchema(
    application_id=int.from_bytes(b"DDTl", "big"),
    format_version=2,
    page_bytes=4 * 1024,
    tables=(
        """CREATE TABLE trackers (
            tracker_id INTEGER PRIMARY KEY,
            topic TEXT NOT NULL,
            cursor TEXT NOT NULL,
            epoch INTEGER NOT NULL,
            writer TEXT NOT NULL,
            last_number INTEGER NOT NULL,
            cut_through INTEGER NOT NULL,
            record_bytes INTEGER NOT NULL,
            claims_void_through INTEGER NOT NULL DEFAULT 0,
            UNIQUE (topic, cursor)
        )""",
        """CREATE TABLE records (
            row_id INTEGER PRIMARY KEY,
            tracker_id INTEGER NOT NULL REFERENCES trackers,
            first_number INTEGER NOT NULL,
            count INTEGER NOT NULL,
            crc32c INTEGER NOT NULL,
            payload BLOB NOT NULL
        )""",
        "CREATE UNIQUE INDEX records_by_number ON records (tracker_id, first_number)",
        _IDENTITY,
    ),
    changes={1: (_IDENTITY,)},
)
"""Records of the numbers above ``cut_through`` up to ``last_number`` are in rows; each number is in one row.

``identity`` has one row from the first start on: the log's id, and the file that got it.
"""
