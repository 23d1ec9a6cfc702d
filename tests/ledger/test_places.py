"""Where entries lie whose own checksum does not fit, though the storage handed them on."""

from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

import pytest

from tests.ledger.disks import DiskFiles
from tests.ledger.list_ledger import ListLedger
from tests.ledger.local.disks import QuickDisk
from tests.ledger.log_files import TOPIC, flipped
from tests.ledger.messages.producer import single
from tests.ledger.offload.blob_files import BlobWriter
from tests.ledger.offload.sequence_files import ledger_metadata
from tracker.ledger.entry_lookup import EntryLookup
from tracker.ledger.errors import EntriesUnreadable
from tracker.ledger.local.opening import open_writer
from tracker.ledger.places import unreadable_entry
from tracker.ledger.source_url import open_source
from tracker.ledger.verify import verify_topics

ENTRIES = [single(b"%d" % number * 40) for number in range(30)]
ENTRIES[21] = flipped(ENTRIES[21], -1)


def save_entry_log(directory: Path, entries: Sequence[bytes]) -> str:
    disk = DiskFiles(directory)
    disk.add_ledger(0, entries)
    disk.open().close()
    return f"bookkeeper+file:{directory}/ledgers?metadata={directory}/dump.jsonl.gz"


def save_local(directory: Path, entries: Sequence[bytes]) -> str:
    with open_writer(directory / "local", TOPIC, now_ms=1, disk=QuickDisk()) as writer:
        writer.append_many(list(entries), now_ms=1)
    return f"ledger:{directory}/local"


def save_blob(directory: Path, entries: Sequence[bytes]) -> str:
    metadata = ledger_metadata(entries, "lab/main/persistent/orders")
    BlobWriter(entries, block_bytes=1_000, metadata=metadata).save(directory, UUID(int=7), 0)
    return f"offload+blob:{directory}"


@pytest.mark.parametrize(("save", "header_bytes"), [(save_entry_log, 40), (save_local, 40), (save_blob, 12)])
def test_file_and_offset_are_named(tmp_path, save: Callable[[Path, Sequence[bytes]], str], header_bytes):
    """By whoever reads everything, and by a search: the record begins there."""
    with open_source(save(tmp_path, ENTRIES)) as source:
        (verdict,) = verify_topics(source, source.topics())
        (bad,) = verdict.bad_entries
        assert bad.file is not None
        assert Path(bad.file).read_bytes().index(ENTRIES[21]) == bad.offset + header_bytes
        assert (bad.ledger_id, bad.entry_id) == (0, 21)

        with pytest.raises(EntriesUnreadable, match=f"entry 0:21 in {bad.file} at byte {bad.offset}: CRC32C"):
            EntryLookup(source.topic_log(TOPIC)).metadata(21)


def test_a_ledger_that_knows_no_files():
    """Names its entry alone."""
    assert str(unreadable_entry(ListLedger(3, []), 5, "is damaged")) == "entry 3:5: is damaged"


def test_what_damage_hides(tmp_path):
    """Behind a wrong size in a block no record can be found, and what no log has is nowhere."""
    with open_source(save_blob(tmp_path, ENTRIES)) as source:
        (data,) = tmp_path.glob("*-ledger-0")
        data.write_bytes(flipped(data.read_bytes(), 128 + 12 + len(ENTRIES[0]) + 2, 0xFF))
        assert source.topic_log(TOPIC).ledger(0).locate(4) is None
    with open_source(save_entry_log(tmp_path, ENTRIES)) as source:
        assert source.topic_log(TOPIC).ledger(0).locate(30) is None
