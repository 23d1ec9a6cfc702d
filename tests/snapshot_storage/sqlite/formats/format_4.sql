-- A storage of format 4, with a tracker that has a snapshot and one that was forgotten.
PRAGMA page_size = 16384;
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA application_id = 1145328754;
PRAGMA user_version = 4;
BEGIN TRANSACTION;
CREATE TABLE catalogue (
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
    );
INSERT INTO "catalogue" VALUES(1,1,1,0,2,0,0,5,X'73756D6D617279',X'636F6E73756D6564',1862138161,7);
CREATE TABLE entries (
        entry_key INTEGER PRIMARY KEY,
        crc32c INTEGER NOT NULL,
        payload BLOB NOT NULL,
        lengths BLOB
    );
INSERT INTO "entries" VALUES(16777216,1273664332,X'6D65746164617461',NULL);
INSERT INTO "entries" VALUES(16777217,3546326669,X'6F6E6574776F',X'0300000003000000');
CREATE TABLE snapshots (
        bucket_id INTEGER PRIMARY KEY AUTOINCREMENT,
        topic TEXT NOT NULL,
        cursor TEXT NOT NULL,
        bucket_key TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        complete INTEGER NOT NULL,
        entry_count INTEGER NOT NULL,
        payload_bytes INTEGER NOT NULL
    );
INSERT INTO "snapshots" VALUES(1,'persistent://shop/orders/events','billing','#pulsar.internal.delayed.bucket_1_2',3,1,3,14);
CREATE TABLE trackers (
        tracker_id INTEGER PRIMARY KEY,
        topic TEXT NOT NULL,
        cursor TEXT NOT NULL,
        epoch INTEGER NOT NULL,
        forgotten INTEGER NOT NULL,
        writer TEXT NOT NULL DEFAULT '',
        mark_delete_ledger_id INTEGER,
        mark_delete_entry_id INTEGER,
        UNIQUE (topic, cursor)
    );
INSERT INTO "trackers" VALUES(1,'persistent://shop/orders/events','billing',3,0,'w',0,5);
INSERT INTO "trackers" VALUES(2,'persistent://shop/orders/events','audit',2,1,'w',NULL,NULL);
CREATE INDEX snapshots_by_tracker ON snapshots (topic, cursor);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('snapshots',1);
COMMIT;
