"""A metadata source taken from a file."""

import gzip
import json

import pytest

from delayed_tracker.ledger.errors import LedgerFileInvalid
from delayed_tracker.ledger.metadata.metadata_dump import MetadataDump
from tests.ledger.harness.log_files import write_dump

VALUES = {
    "/managed-ledgers": b"",
    "/managed-ledgers/lab/main/persistent/orders": b"\x00\xff\x0a",
    "/managed-ledgers/lab/main/persistent/orders/workers": b"cursor",
    "/managed-ledgers/lab/main/persistent/bills": b"",
}


@pytest.mark.parametrize("name", ["dump.jsonl", "dump.jsonl.gz"])
def test_nodes_and_their_children(tmp_path, name):
    """Plain and gzip files; nodes between root and leaf need not be in the dump."""
    dump = MetadataDump.load(write_dump(tmp_path / name, VALUES))

    assert len(dump) == 4
    assert dump.name == str(tmp_path / name)
    assert dump.get("/managed-ledgers/lab/main/persistent/orders") == b"\x00\xff\x0a"
    assert dump.get("/managed-ledgers/lab/main/persistent/bills") == b""
    assert dump.get("/managed-ledgers/lab") is None
    assert dump.children("/managed-ledgers") == ["lab"]
    assert dump.children("/managed-ledgers/lab/main/persistent") == ["bills", "orders"]
    assert dump.children("/managed-ledgers/lab/main/persistent/orders") == ["workers"]
    assert list(dump.children("/nowhere")) == []


def test_further_keys_and_missing_values(tmp_path):
    """Dumps say more than we read, and a node without a value may have null."""
    rows = [{"path": "/a", "value": None, "version": 3, "ephemeral": False}, {"version": 0, "path": "/b"}]
    (tmp_path / "dump.jsonl").write_text("\n\n".join(map(json.dumps, rows)) + "\n")

    dump = MetadataDump.load(tmp_path / "dump.jsonl")

    assert (dump.get("/a"), dump.get("/b")) == (b"", b"")


@pytest.mark.parametrize(
    "line",
    ['{"path": "/b"', '["/b"]', '{"value": ""}', '{"path": 7}', '{"path": "/b", "value": "***"}', "/b", '"\xff"'],
)
def test_bad_lines_are_named_by_number(tmp_path, line):
    """The message says which file, which line, and what is expected."""
    (tmp_path / "dump.jsonl").write_bytes(b'{"path": "/a"}\n' + line.encode("latin-1") + b"\n")

    with pytest.raises(LedgerFileInvalid, match=r"dump\.jsonl, line 2: .*give a metadata dump of JSON lines"):
        MetadataDump.load(tmp_path / "dump.jsonl")


def test_gzip_cut_short_at_every_byte_is_refused(tmp_path):
    """A dump that lost its end would hide topics."""
    packed = gzip.compress(b'{"path": "/a", "value": "AAAA"}\n' * 20)
    file = tmp_path / "dump.jsonl.gz"
    for length in range(2, len(packed)):
        file.write_bytes(packed[:length])
        with pytest.raises(LedgerFileInvalid, match="cut short or damaged"):
            MetadataDump.load(file)


def test_file_that_does_not_exist(tmp_path):
    """The operating system's own error names it."""
    with pytest.raises(FileNotFoundError):
        MetadataDump.load(tmp_path / "nowhere.jsonl")
